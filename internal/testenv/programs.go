package testenv

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// library is a line of ldd's output that names a file.
var library = regexp.MustCompile(`(?m)(/\S+) \(0x`)

// Programs takes programs of this machine, by their paths, with the libraries
// they are linked against, for an image of a test: ImageConfig.ExtraFiles. One
// that is not there skips the test, under the name of its file.
func Programs(t testing.TB, paths ...string) map[string]string {
	t.Helper()
	files := map[string]string{}
	add := func(path string) {
		b, err := os.ReadFile(path)
		if err != nil {
			missing(t, filepath.Base(path), err.Error())
		}
		files[strings.TrimPrefix(path, "/")] = string(b)
	}
	for _, p := range paths {
		add(p)
		out, err := exec.CommandContext(t.Context(), "ldd", p).CombinedOutput()
		if err != nil && !strings.Contains(string(out), "not a dynamic executable") {
			t.Fatalf("ldd %s: %v\n%s", p, err, out)
		}
		for _, lib := range library.FindAllStringSubmatch(string(out), -1) {
			if _, have := files[strings.TrimPrefix(lib[1], "/")]; !have {
				add(lib[1])
			}
		}
	}
	return files
}
