package egress

import (
	"archive/zip"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/wardyn/nomad-driver-wardyn/internal/testenv"
)

// toolchains are what clients of this machine need in an image, and why one is
// not there.
type toolchains struct {
	files   map[string]string
	missing map[string]error
}

func findToolchains(t *testing.T) toolchains {
	t.Helper()
	c := toolchains{files: testenv.Programs(t, "/usr/bin/curl", "/usr/bin/wget"), missing: map[string]error{}}
	for name, find := range map[string]func(*testing.T) (map[string]string, error){
		"node": nodeFiles, "npm": npmFiles, "python": pythonFiles, "pip": pipFiles, "httpx": httpxFiles,
		"apt": aptFiles, "cargo": cargoFiles, "java": javaFiles, "ruby": rubyFiles,
	} {
		files, err := find(t)
		if err != nil {
			c.missing[name] = err
			continue
		}
		maps.Copy(c.files, files)
	}
	return c
}

// need skips a test whose toolchains are not all there.
func (c toolchains) need(t *testing.T, names string) {
	t.Helper()
	for need := range strings.FieldsSeq(names) {
		if why := c.missing[need]; why != nil {
			t.Skipf("no %s on this machine to put into the image: %v", need, why)
		}
	}
}

// ifThere are programs with their libraries, or why there are none.
func ifThere(t *testing.T, paths ...string) (map[string]string, error) {
	for _, p := range paths {
		if _, err := os.Stat(p); err != nil {
			return nil, err
		}
	}
	return testenv.Programs(t, paths...), nil
}

// nodeFiles is node with what Debian's keeps of itself beside it.
func nodeFiles(t *testing.T) (map[string]string, error) {
	files, err := ifThere(t, "/usr/bin/node")
	if err != nil {
		return nil, err
	}
	for _, part := range []string{"acorn", "acorn-walk", "cjs-module-lexer", "undici"} {
		parts, err := testenv.Tree("/usr/share/nodejs/"+part, func(string) bool { return false })
		if err != nil && !os.IsNotExist(err) {
			return nil, err
		}
		maps.Copy(files, parts)
	}
	return files, nil
}

// npmFiles is npm with its libraries, below the folder it is installed in.
func npmFiles(*testing.T) (map[string]string, error) {
	cli, err := filepath.EvalSymlinks("/usr/bin/npm")
	if err != nil {
		return nil, err
	}
	root := filepath.Dir(filepath.Dir(cli))
	if _, err := os.Stat(filepath.Join(root, "node_modules")); err != nil {
		return nil, fmt.Errorf("this npm does not bring its libraries: %w", err)
	}
	files, err := testenv.Tree(root, func(name string) bool { return slices.Contains([]string{"docs", "man"}, name) })
	if err != nil {
		return nil, err
	}
	files["usr/bin/npm"] = "#!/bin/sh\nexec node " + cli + " \"$@\"\n"
	return files, nil
}

// pythonFiles is Debian's python with its library.
func pythonFiles(t *testing.T) (map[string]string, error) {
	libs, err := filepath.Glob("/usr/lib/python3.[0-9]*/lib-dynload/_*.so")
	if err != nil || len(libs) == 0 {
		return nil, fmt.Errorf("no python of Debian's: %v", err)
	}
	files, err := testenv.Tree(filepath.Dir(filepath.Dir(libs[0])), func(name string) bool {
		return slices.Contains([]string{"__pycache__", "test", "lib2to3", "pydoc_data", "idlelib", "tkinter"}, name) || strings.HasPrefix(name, "config-")
	})
	if err != nil {
		return nil, err
	}
	programs, err := ifThere(t, append(libs, "/usr/bin/python3")...)
	maps.Copy(files, programs)
	return files, err
}

// pipFiles is pip out of its wheel, and with it the HTTP library requests, which
// it brings along.
func pipFiles(*testing.T) (map[string]string, error) {
	wheels, err := filepath.Glob("/usr/share/python-wheels/pip-*.whl")
	if err != nil || len(wheels) == 0 {
		return nil, fmt.Errorf("no wheel of pip's (package python3-pip-whl): %v", err)
	}
	z, err := zip.OpenReader(wheels[0])
	if err != nil {
		return nil, err
	}
	defer z.Close()
	files := map[string]string{}
	for _, f := range z.File {
		r, err := f.Open()
		if err != nil {
			return nil, err
		}
		b, err := io.ReadAll(r)
		r.Close()
		if err != nil {
			return nil, err
		}
		files["usr/lib/python3/dist-packages/"+f.Name] = string(b)
	}
	return files, nil
}
