package egress

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"fmt"
	"net/http"
	"testing"
)

// aptArchive serves a Debian archive with the package demo below /apt/. apt-get
// checks what it downloads by its size and digest, and does not look into it.
func aptArchive() http.Handler {
	const deb = "demo from apt"
	packages := fmt.Sprintf("Package: demo\nVersion: 1.0\nArchitecture: all\nMaintainer: nobody\nDescription: demo\nFilename: pool/demo_1.0_all.deb\nSize: %d\nSHA256: %x\n",
		len(deb), sha256.Sum256([]byte(deb)))
	release := fmt.Sprintf("Suite: stable\nCodename: stable\nComponents: main\nArchitectures: amd64\nDate: Thu, 01 Jan 2026 00:00:00 UTC\nSHA256:\n %x %d main/binary-amd64/Packages\n",
		sha256.Sum256([]byte(packages)), len(packages))
	return files(map[string]string{
		"/apt/dists/stable/Release": release, "/apt/dists/stable/main/binary-amd64/Packages": packages, "/apt/pool/demo_1.0_all.deb": deb,
	})
}

// cargoIndex serves a sparse registry with the crate demo below /cargo/.
func cargoIndex(t *testing.T) http.Handler {
	t.Helper()
	var crate bytes.Buffer
	z := gzip.NewWriter(&crate)
	w := tar.NewWriter(z)
	for name, text := range map[string]string{
		"demo-1.0.0/Cargo.toml": "[package]\nname = \"demo\"\nversion = \"1.0.0\"\n", "demo-1.0.0/src/lib.rs": "// demo from cargo\n",
	} {
		w.WriteHeader(&tar.Header{Name: name, Mode: 0o644, Size: int64(len(text))})
		w.Write([]byte(text))
	}
	w.Close()
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	line := fmt.Sprintf(`{"name":"demo","vers":"1.0.0","deps":[],"cksum":"%x","features":{},"yanked":false}`, sha256.Sum256(crate.Bytes()))
	rest := files(map[string]string{"/cargo/de/mo/demo": line + "\n", "/cargo/dl/demo/1.0.0/download": crate.String()})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/cargo/config.json" {
			fmt.Fprintf(w, `{"dl":"https://%s/cargo/dl"}`, r.Host)
			return
		}
		rest.ServeHTTP(w, r)
	})
}

// files serves texts by their paths.
func files(texts map[string]string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		text, ok := texts[r.URL.Path]
		if !ok {
			http.NotFound(w, r)
			return
		}
		fmt.Fprint(w, text)
	})
}
