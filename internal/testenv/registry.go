package testenv

import (
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
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
