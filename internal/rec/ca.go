package rec

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

// caVariable holds the run's own CA, as PEM, when its proxy opens TLS.
const caVariable = "WARDYN_MITM_CA_PEM"

// Where the CA goes: alone, and behind the image's own roots for programs whose
// variable replaces a trust store.
const (
	caFolder = "/tmp/wardyn"
	caFile   = "mitm-ca.pem"
	caBundle = "ca-bundle.pem"
)

// rootBundles are the places distributions keep their roots at.
var rootBundles = []string{
	"/etc/ssl/certs/ca-certificates.crt",
	"/etc/ssl/cert.pem",
	"/etc/pki/tls/certs/ca-bundle.crt",
}

// The system's own store, for those who may write it.
const (
	systemFolder = "/usr/local/share/ca-certificates"
	systemUpdate = "update-ca-certificates"
	updateLimit  = 20 * time.Second
)

// placeCA puts the run's CA where programs look for it. What cannot be written
// stays as it is: within a run its content is the same whoever wrote it. With
// kept, an image is made of what the run leaves, in which its CA has no place:
// the system's own store stays as it is then.
func placeCA(kept bool) {
	ca := os.Getenv(caVariable)
	if ca == "" {
		return
	}
	writeCA(caFolder, []byte(ca), rootBundles)
	if !kept {
		systemCA([]byte(ca))
	}
}

func writeCA(dir string, ca []byte, bundles []string) {
	ca = append(bytes.TrimSpace(ca), '\n')
	if os.Mkdir(dir, 0o777) == nil {
		os.Chmod(dir, 0o777|os.ModeSticky) // the mode without this process's umask
	}
	os.WriteFile(filepath.Join(dir, caFile), ca, 0o644)
	var roots []byte
	for _, p := range bundles {
		if b, err := os.ReadFile(p); err == nil {
			roots = append(bytes.TrimSpace(b), '\n')
			break
		}
	}
	os.WriteFile(filepath.Join(dir, caBundle), append(roots, ca...), 0o644)
}

// systemCA adds the CA to the system's store, where there is one and the task's
// user may write it.
func systemCA(ca []byte) {
	update, err := exec.LookPath(systemUpdate)
	if err != nil || os.WriteFile(filepath.Join(systemFolder, "wardyn-mitm.crt"), ca, 0o644) != nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), updateLimit)
	defer cancel()
	exec.CommandContext(ctx, update).Run() // its variables point to the files above
}
