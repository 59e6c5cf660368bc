package docker

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"net"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/docker/docker/api/types/image"

	"github.com/wardyn/nomad-driver-wardyn/runner"
)

// loopRegistry serves one image on loopback, which every engine takes without TLS.
type loopRegistry struct {
	host     string
	digest   string // of the manifest
	contents map[string][]byte
	kinds    map[string]string

	mu        sync.Mutex
	manifests int // asked for with GET
}

func newRegistry(t *testing.T) *loopRegistry {
	t.Helper()
	r := &loopRegistry{contents: make(map[string][]byte), kinds: make(map[string]string)}
	var layer, plain bytes.Buffer
	w := tar.NewWriter(&plain)
	w.WriteHeader(&tar.Header{Name: "hello", Mode: 0o644, Size: 2})
	w.Write([]byte("hi"))
	w.Close()
	z := gzip.NewWriter(&layer)
	z.Write(plain.Bytes())
	z.Close()
	config := toJSON(t, map[string]any{
		"architecture": runtime.GOARCH, "os": "linux", "config": map[string]any{"Cmd": []string{"/hello"}, "Labels": map[string]string{"test": t.Name()}},
		"rootfs": map[string]any{"type": "layers", "diff_ids": []string{digestOf(plain.Bytes())}},
	})
	const docker = "application/vnd.docker."
	manifest := toJSON(t, map[string]any{
		"schemaVersion": 2, "mediaType": docker + "distribution.manifest.v2+json",
		"config": map[string]any{"mediaType": docker + "container.image.v1+json", "size": len(config), "digest": digestOf(config)},
		"layers": []any{map[string]any{"mediaType": docker + "image.rootfs.diff.tar.gzip", "size": layer.Len(), "digest": digestOf(layer.Bytes())}},
	})
	r.digest = digestOf(manifest)
	for _, b := range [][]byte{config, layer.Bytes()} {
		r.contents["/v2/acme/agent/blobs/"+digestOf(b)] = b
	}
	for _, ref := range []string{"1", r.digest} {
		r.contents["/v2/acme/agent/manifests/"+ref] = manifest
		r.kinds["/v2/acme/agent/manifests/"+ref] = docker + "distribution.manifest.v2+json"
	}
	r.contents["/v2/"] = nil
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r.host = l.Addr().String()
	s := &http.Server{Handler: r, ReadHeaderTimeout: 10 * time.Second}
	go s.Serve(l)
	t.Cleanup(func() { s.Close() })
	return r
}

func (r *loopRegistry) ServeHTTP(w http.ResponseWriter, q *http.Request) {
	b, ok := r.contents[q.URL.Path]
	if !ok {
		http.Error(w, `{"errors":[{"code":"MANIFEST_UNKNOWN","message":"manifest unknown"}]}`, http.StatusNotFound)
		return
	}
	if strings.Contains(q.URL.Path, "/manifests/") && q.Method == http.MethodGet {
		r.mu.Lock()
		r.manifests++
		r.mu.Unlock()
	}
	if k := r.kinds[q.URL.Path]; k != "" {
		w.Header().Set("Content-Type", k)
		w.Header().Set("Docker-Content-Digest", r.digest)
	}
	http.ServeContent(w, q, "", time.Time{}, bytes.NewReader(b))
}

func toJSON(t *testing.T, v any) []byte {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func digestOf(b []byte) string {
	sum := sha256.Sum256(b)
	return "sha256:" + hex.EncodeToString(sum[:])
}

// R10, R11, B23: what is absent is pulled, by tag and by digest, and what is
// present is not asked for again.
func TestB23PullOnce(t *testing.T) {
	w := newWorld(t)
	reg := newRegistry(t)
	byTag, byDigest := reg.host+"/acme/agent:1", reg.host+"/acme/agent@"+reg.digest
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		for _, ref := range []string{byTag, byDigest} {
			w.cl.ImageRemove(ctx, ref, image.RemoveOptions{Force: true})
		}
		if ok, err := w.ImagePresent(ctx, byDigest); ok || err != nil {
			t.Errorf("image left: %v, %v", ok, err)
		}
	})
	for range 2 {
		f, err := w.ensureImage(t.Context(), byDigest, runner.ImageSource{})
		if err != nil || len(f.Cmd) != 1 || f.Arch != runtime.GOARCH {
			t.Fatalf("%+v, %v", f, err)
		}
	}
	after := reg.manifests
	if _, err := w.ensureImage(t.Context(), byDigest, runner.ImageSource{}); err != nil || after != reg.manifests || after == 0 {
		t.Errorf("asked %d times, then %d; %v", after, reg.manifests, err)
	}
	if _, err := w.ensureImage(t.Context(), byTag, runner.ImageSource{}); err != nil {
		t.Error(err)
	}
	spec := specFor(t, "runc")
	spec.Image = reg.host + "/acme/agent:absent"
	w.assumeWorks(t, classFor("runc"), "runc")
	_, err := w.CreateSandbox(t.Context(), spec)
	if err == nil || !strings.Contains(err.Error(), "pull "+spec.Image) {
		t.Errorf("err = %v", err)
	}
}
