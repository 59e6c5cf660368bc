package testenv

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/image"
	"github.com/docker/docker/api/types/registry"
)

// RegistryUser and RegistryPassword are what Registry's registry takes.
const (
	RegistryUser     = "tester"
	RegistryPassword = "secret-Pw"
	registryEntry    = "tester:$2y$05$.wF1k7w8WgRWC4wEEWbohuIXbV9WECARofV9KWG14dr2jXDLg3mfK\n"
)

// Registry starts a registry on loopback, which every engine takes without
// TLS, and returns its host and port. With wantAuth it gives nothing without
// the credentials. It ends with the test.
func Registry(t testing.TB, wantAuth bool) string {
	t.Helper()
	bin, err := exec.LookPath("docker-registry")
	if err != nil {
		missing(t, "docker-registry", "Debian's package of that name is not installed")
	}
	dir := t.TempDir()
	host := Loopback(t).String()
	config := fmt.Sprintf("version: 0.1\nlog: {level: error, accesslog: {disabled: true}}\nstorage: {filesystem: {rootdirectory: %s}}\nhttp: {addr: %s}\n", filepath.Join(dir, "data"), host)
	if wantAuth {
		users := filepath.Join(dir, "users")
		if err := os.WriteFile(users, []byte(registryEntry), 0o600); err != nil {
			t.Fatal(err)
		}
		config += fmt.Sprintf("auth: {htpasswd: {realm: test, path: %s}}\n", users)
	}
	file := filepath.Join(dir, "config.yml")
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(bin, "serve", file)
	var said Buffer
	cmd.Stdout, cmd.Stderr = &said, &said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
		if t.Failed() {
			t.Logf("the registry said:\n%s", said.String())
		}
	})
	Eventually(t, "the registry answers", func() bool {
		resp, err := http.Get("http://" + host + "/v2/")
		if err == nil {
			resp.Body.Close()
		}
		return err == nil
	})
	return host
}

// Push makes an image of its own, which no other test has containers of, and
// puts it into a registry. The engine does not have it any more when Push
// returns, and what it then fetches goes with the test.
func Push(t testing.TB, host string) (ref string) {
	t.Helper()
	ref = host + "/acme/agent:1"
	name := ImageWith(t, ImageConfig{})
	cl := Client(t, Engine(t))
	auth, err := registry.EncodeAuthConfig(registry.AuthConfig{Username: RegistryUser, Password: RegistryPassword})
	must(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), Patience)
	defer cancel()
	must(t, cl.ImageTag(ctx, name, ref))
	answer, err := cl.ImagePush(ctx, ref, image.PushOptions{RegistryAuth: auth})
	must(t, err)
	said, err := io.ReadAll(answer)
	if err = errors.Join(err, answer.Close()); err != nil || bytes.Contains(said, []byte("errorDetail")) {
		t.Fatalf("push %s: %v: %s", ref, err, said)
	}
	drop := func() {
		ctx, cancel := context.WithTimeout(context.Background(), Patience)
		defer cancel()
		for _, n := range []string{ref, name} {
			if _, err := cl.ImageRemove(ctx, n, image.RemoveOptions{PruneChildren: true}); err != nil && !errdefs.IsNotFound(err) {
				t.Errorf("remove %s: %v", n, err)
			}
		}
	}
	drop()
	t.Cleanup(drop)
	return ref
}
