package datadir

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// Look says what Open would make of a data dir, and makes nothing: missing when
// there is none yet, with its instance id where there is one.
func Look(path string) (instance string, missing bool, err error) {
	if _, err := os.Lstat(path); errors.Is(err, fs.ErrNotExist) {
		return "", true, nil
	}
	if err := checkOwn(path); err != nil {
		return "", false, err
	}
	b, err := os.ReadFile(filepath.Join(path, "instance"))
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return strings.TrimSpace(string(b)), false, err
}
