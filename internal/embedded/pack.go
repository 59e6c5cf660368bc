package embedded

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"runtime"
	"time"
)

type file struct {
	name string
	data []byte
}

// epoch stamps everything, so that the id depends on the binaries alone.
var epoch = time.Unix(0, 0).UTC()

// pack builds a one-layer image archive. The image's id is the digest of its
// configuration, which names the digest of the layer.
func pack(files []file) (archive []byte, id string, err error) {
	layer, err := tarball(files, 0o555)
	if err != nil {
		return nil, "", err
	}
	config, err := json.Marshal(map[string]any{
		"architecture": runtime.GOARCH,
		"os":           "linux",
		"created":      epoch.Format(time.RFC3339),
		"config":       map[string]any{"Labels": map[string]string{"wardyn.tools": "true"}},
		"rootfs":       map[string]any{"type": "layers", "diff_ids": []string{digest(layer)}},
		"history":      []map[string]any{{"created": epoch.Format(time.RFC3339), "comment": "wardyn tools"}},
	})
	if err != nil {
		return nil, "", err
	}
	id = digest(config)
	name := id[len("sha256:"):]
	manifest, err := json.Marshal([]map[string]any{{
		"Config":   name + ".json",
		"RepoTags": []string{"wardyn-tools:" + name[:12]},
		"Layers":   []string{name + "/layer.tar"},
	}})
	if err != nil {
		return nil, "", err
	}
	archive, err = tarball([]file{
		{name + ".json", config},
		{name + "/layer.tar", layer},
		{"manifest.json", manifest},
	}, 0o444)
	return archive, id, err
}

func tarball(files []file, mode int64) ([]byte, error) {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, f := range files {
		h := &tar.Header{Name: f.name, Mode: mode, Size: int64(len(f.data)), ModTime: epoch, Format: tar.FormatUSTAR}
		if err := w.WriteHeader(h); err != nil {
			return nil, err
		}
		if _, err := w.Write(f.data); err != nil {
			return nil, err
		}
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

func digest(b []byte) string {
	sum := sha256.Sum256(b)
	return "sha256:" + hex.EncodeToString(sum[:])
}
