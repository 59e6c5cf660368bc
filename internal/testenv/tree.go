package testenv

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// Tree takes the regular files below a folder of this machine, at their own
// paths, for an image of a test: ImageConfig.ExtraFiles. Folders that leave says
// true to are left out.
func Tree(dir string, leave func(name string) bool) (map[string]string, error) {
	files := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && leave(d.Name()):
			return fs.SkipDir
		case !d.Type().IsRegular():
			return nil
		}
		b, err := os.ReadFile(path)
		files[strings.TrimPrefix(path, "/")] = string(b)
		return err
	})
	return files, err
}
