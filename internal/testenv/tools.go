package testenv

import (
	"archive/tar"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"
	"testing"
	"testing/fstest"

	"github.com/docker/docker/api/types/image"
	"github.com/docker/docker/client"

	"github.com/wardyn/nomad-driver-wardyn/internal/embedded"
)

// Root is the top folder of the checkout.
func Root(t testing.TB) string {
	t.Helper()
	_, file, _, _ := runtime.Caller(0)
	return filepath.Dir(filepath.Dir(filepath.Dir(file)))
}

// Driver is the driver's binary with all that is embedded in it: the one that
// WARDYN_TEST_BINARY names, else the one that "make build" leaves.
func Driver(t testing.TB) string {
	t.Helper()
	p := os.Getenv("WARDYN_TEST_BINARY")
	if p == "" {
		p = filepath.Join(Root(t), "bin", "nomad-driver-wardyn")
	}
	if _, err := os.Stat(p); err != nil {
		t.Fatalf("the driver is not built (make build): %v", err)
	}
	return p
}

var built struct {
	sync.Mutex
	files fstest.MapFS
}

// Tools are the two static binaries, built from this checkout once a test
// process, laid out below a folder of the test's own.
func Tools(t testing.TB) *embedded.Tools {
	t.Helper()
	built.Lock()
	defer built.Unlock()
	if built.files == nil {
		files := fstest.MapFS{}
		for _, name := range []string{embedded.ProxyName, embedded.RecorderName} {
			b, err := os.ReadFile(Build(t, "./cmd/"+name))
			if err != nil {
				t.Fatal(err)
			}
			files["bin/"+name] = &fstest.MapFile{Data: b}
		}
		built.files = files
	}
	tools := embedded.NewFrom(t.TempDir(), built.files)
	t.Cleanup(func() { removeImageOf(t, tools) })
	return tools
}

// removeImageOf takes the tools image off the engine, if there is one and
// nobody uses it any more.
func removeImageOf(t testing.TB, tools *embedded.Tools) {
	_, id, err := tools.Image()
	if err != nil {
		t.Error(err)
		return
	}
	endpoint := os.Getenv("DOCKER_HOST")
	if endpoint == "" {
		endpoint = client.DefaultDockerHost
	}
	ctx, cancel := context.WithTimeout(context.Background(), Patience)
	defer cancel()
	_, _ = Client(t, endpoint).ImageRemove(ctx, id, image.RemoveOptions{PruneChildren: true})
}

// compiled holds the commands that Build has made, by package.
var compiled struct {
	sync.Mutex
	files map[string][]byte
}

// Build compiles one static command of this module, once a test process, and
// returns its path in a folder of the test's own.
func Build(t testing.TB, pkg string) string {
	t.Helper()
	compiled.Lock()
	defer compiled.Unlock()
	out := filepath.Join(t.TempDir(), filepath.Base(pkg))
	if b, ok := compiled.files[pkg]; ok {
		must(t, os.WriteFile(out, b, 0o755))
		return out
	}
	compile(t, pkg, out)
	b, err := os.ReadFile(out)
	must(t, err)
	if compiled.files == nil {
		compiled.files = map[string][]byte{}
	}
	compiled.files[pkg] = b
	return out
}

func compile(t testing.TB, pkg, out string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", "build", "-trimpath", "-ldflags=-s -w", "-o", out, pkg)
	cmd.Dir = Root(t)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if b, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("go build %s: %v\n%s", pkg, err, b)
	}
}

func put(w *tar.Writer, name string, mode int64, data []byte) {
	// Writes to a bytes.Buffer do not fail.
	_ = w.WriteHeader(&tar.Header{Name: name, Mode: mode, Size: int64(len(data))})
	_, _ = w.Write(data)
}

func sha(b []byte) string {
	sum := sha256.Sum256(b)
	return fmt.Sprintf("sha256:%s", hex.EncodeToString(sum[:]))
}
