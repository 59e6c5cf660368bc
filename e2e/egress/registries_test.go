package egress

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"crypto/sha512"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"sync"
	"testing"
)

// npmRegistry serves the package @acme/demo below /npm/ and remembers how its
// name was spelt: npm writes the slash in it as %2f.
type npmRegistry struct {
	tarball []byte

	mu    sync.Mutex
	asked []string
}

func newNPMRegistry(t *testing.T) *npmRegistry {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	w := tar.NewWriter(z)
	for name, text := range map[string]string{
		"package/package.json": `{"name":"@acme/demo","version":"1.0.0","main":"index.js"}`, "package/index.js": `module.exports = "demo from npm"`,
	} {
		w.WriteHeader(&tar.Header{Name: name, Mode: 0o644, Size: int64(len(text))})
		w.Write([]byte(text))
	}
	w.Close()
	z.Close()
	return &npmRegistry{tarball: b.Bytes()}
}

func (n *npmRegistry) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	n.mu.Lock()
	n.asked = append(n.asked, r.URL.EscapedPath())
	n.mu.Unlock()
	switch r.URL.Path {
	case "/npm/@acme/demo":
		sum := sha512.Sum512(n.tarball)
		json.NewEncoder(w).Encode(map[string]any{
			"name": "@acme/demo", "dist-tags": map[string]string{"latest": "1.0.0"},
			"versions": map[string]any{"1.0.0": map[string]any{"name": "@acme/demo", "version": "1.0.0", "dist": map[string]string{
				"tarball": "https://" + r.Host + "/npm/demo-1.0.0.tgz", "integrity": "sha512-" + base64.StdEncoding.EncodeToString(sum[:]),
			}}},
		})
	case "/npm/demo-1.0.0.tgz":
		w.Write(n.tarball)
	default:
		http.NotFound(w, r)
	}
}

func (n *npmRegistry) paths() []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.asked
}

// pipIndex serves the wheel of a package demo below /simple/.
func pipIndex(t *testing.T) http.Handler {
	t.Helper()
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	for name, text := range map[string]string{
		"demo.py":                      `word = "demo from pip"`,
		"demo-1.0.dist-info/METADATA":  "Metadata-Version: 2.1\nName: demo\nVersion: 1.0\n",
		"demo-1.0.dist-info/WHEEL":     "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
		"demo-1.0.dist-info/RECORD":    "demo.py,,\ndemo-1.0.dist-info/METADATA,,\ndemo-1.0.dist-info/WHEEL,,\ndemo-1.0.dist-info/RECORD,,\n",
		"demo-1.0.dist-info/INSTALLER": "test\n",
	} {
		f, err := z.Create(name)
		if err != nil {
			t.Fatal(err)
		}
		f.Write([]byte(text))
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/simple/demo/":
			fmt.Fprint(w, `<!DOCTYPE html><a href="demo-1.0-py3-none-any.whl">demo</a>`)
		case "/simple/demo/demo-1.0-py3-none-any.whl":
			w.Write(b.Bytes())
		default:
			http.NotFound(w, r)
		}
	})
}
