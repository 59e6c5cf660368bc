package runner

import (
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"
)

var update = flag.Bool("update", false, "rewrite golden files")

func TestT48RecorderArgv(t *testing.T) {
	run := uuid.MustParse("11111111-2222-4333-8444-555566667777")
	for name, c := range map[string]struct {
		cast, out, url string
		agent          []string
		want           string
	}{
		"upload":  {"/c", "", "http://u", []string{"a", "-x"}, "wardyn-rec|-cast-dir|/c|-upload-url|http://u|-run|ID|--|a|-x"},
		"folder":  {"/c", "/o", "", []string{"a"}, "wardyn-rec|-cast-dir|/c|-out-dir|/o|-run|ID|--|a"},
		"both":    {"/c", "/o", "http://u", []string{"a"}, "wardyn-rec|-cast-dir|/c|-upload-url|http://u|-run|ID|--|a"},
		"neither": {"/c", "", "", []string{"a"}, "wardyn-rec|-cast-dir|/c|-run|ID|--|a"},
		"nothing": {"", "", "", nil, "wardyn-rec|-cast-dir||-run|ID|--"},
	} {
		got := RecorderArgv(c.cast, c.out, c.url, run, c.agent)
		if want := strings.Split(strings.ReplaceAll(c.want, "ID", run.String()), "|"); !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
}

func TestT49IdleScriptGolden(t *testing.T) {
	golden := filepath.Join("testdata", "idle.sh")
	if *update {
		if err := os.WriteFile(golden, []byte(AgentIdleScript), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if AgentIdleScript != string(want) {
		t.Error("AgentIdleScript and testdata/idle.sh differ; run with -update if the change is meant")
	}
	if out, err := exec.Command("sh", "-n", golden).CombinedOutput(); err != nil {
		t.Errorf("sh -n: %v\n%s", err, out)
	}
}

// idle runs the script in dir with its absolute paths moved there and a sleep
// that ends at once. It returns what went to standard error.
func idle(t *testing.T, dir, ca string, roots bool) string {
	t.Helper()
	bin := filepath.Join(dir, "bin")
	for _, d := range []string{bin, dir + "/etc/ssl/certs", dir + "/usr/local/share/ca-certificates"} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	write := func(name, content string, mode os.FileMode) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), mode); err != nil {
			t.Fatal(err)
		}
	}
	write("bin/sleep", "#!/bin/sh\necho \"sleep $*\" >>"+dir+"/calls\n", 0o755)
	write("bin/update-ca-certificates", "#!/bin/sh\necho update >>"+dir+"/calls\nexit 1\n", 0o755)
	if roots {
		write("etc/ssl/certs/ca-certificates.crt", "ROOTS", 0o644)
		write("etc/ssl/cert.pem", "SECOND", 0o644)
	}
	script := strings.NewReplacer("/tmp/wardyn", dir+"/tmp/wardyn", " /etc/", " "+dir+"/etc/", " /usr/", " "+dir+"/usr/").
		Replace(AgentIdleScript)
	cmd := exec.Command("sh", "-c", script)
	cmd.Env = []string{"PATH=" + bin + ":/usr/bin:/bin", "WARDYN_MITM_CA_PEM=" + ca}
	var stderr strings.Builder
	cmd.Stderr = &stderr
	if err := cmd.Run(); err != nil {
		t.Fatalf("the idle script failed: %v\n%s", err, stderr.String())
	}
	return stderr.String()
}

func contentOf(t *testing.T, p string) string {
	t.Helper()
	b, err := os.ReadFile(p)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestT49IdleScriptInstallsTheCA(t *testing.T) {
	dir := t.TempDir()
	if warned := idle(t, dir, "PEM LINE 1\nPEM LINE 2", true); warned != "" {
		t.Errorf("stderr %q, want none", warned)
	}
	for file, want := range map[string]string{
		"tmp/wardyn/mitm-ca.pem":                          "PEM LINE 1\nPEM LINE 2\n",
		"tmp/wardyn/ca-bundle.pem":                        "ROOTS\nPEM LINE 1\nPEM LINE 2\n",
		"usr/local/share/ca-certificates/wardyn-mitm.crt": "PEM LINE 1\nPEM LINE 2\n",
		"calls": "update\nsleep 2147483647\n",
	} {
		if got := contentOf(t, filepath.Join(dir, file)); got != want {
			t.Errorf("%s holds %q, want %q", file, got, want)
		}
	}
	for file, want := range map[string]os.FileMode{
		"tmp/wardyn":               os.ModeDir | os.ModeSticky | 0o777,
		"tmp/wardyn/mitm-ca.pem":   0o644,
		"tmp/wardyn/ca-bundle.pem": 0o644,
	} {
		fi, err := os.Stat(filepath.Join(dir, file))
		if err != nil || fi.Mode() != want {
			t.Errorf("%s has mode %v (%v), want %v", file, fi.Mode(), err, want)
		}
	}
}

func TestT49IdleScriptWithoutRoots(t *testing.T) {
	dir := t.TempDir()
	if warned := idle(t, dir, "PEM", false); strings.Count(warned, "\n") != 1 || !strings.Contains(warned, "no CA bundle") {
		t.Errorf("stderr %q, want one warning", warned)
	}
	if got := contentOf(t, filepath.Join(dir, "tmp/wardyn/ca-bundle.pem")); got != "PEM\n" {
		t.Errorf("the bundle holds %q, want the CA alone", got)
	}
}

func TestT49IdleScriptWithoutCA(t *testing.T) {
	dir := t.TempDir()
	idle(t, dir, "", true)
	if got := contentOf(t, filepath.Join(dir, "calls")); got != "sleep 2147483647\n" {
		t.Errorf("calls %q, want the sleep alone", got)
	}
	if _, err := os.Stat(filepath.Join(dir, "tmp/wardyn")); err == nil {
		t.Error("a folder was made without a CA")
	}
}

// T49 step 2: what cannot be written is left alone and the sandbox idles.
func TestT49IdleScriptCannotWrite(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "tmp"), nil, 0o644); err != nil { // a file where the folder should be
		t.Fatal(err)
	}
	if warned := idle(t, dir, "PEM", true); warned != "" {
		t.Errorf("stderr %q, want none", warned)
	}
	if got := contentOf(t, filepath.Join(dir, "calls")); !strings.HasSuffix(got, "sleep 2147483647\n") {
		t.Errorf("calls %q, want the sleep last", got)
	}
}

// T50: nothing but what the smallest images have, and no "infinity".
func TestT50IdleScriptNeedsLittle(t *testing.T) {
	if strings.Contains(AgentIdleScript, "infinity") {
		t.Error("old busybox does not know sleep infinity")
	}
	if strings.Contains(AgentIdleScript, "agent-run") {
		t.Error("T51: an arbitrary image has no agent-run")
	}
}

func TestT46T47KnownNonVaultRuntimes(t *testing.T) {
	for name, want := range map[string]bool{
		"runc": true, "runc-fips": true, "crun": true, "crun-foo": true, "sysbox-runc": true,
		"runsc": true, "runsc-kvm": true, "RunC": true,
		"io.containerd.runc.v2": true, "io.containerd.runsc.v1": true, "io.containerd.RUNC.v2": true,
		// T47, decided: none of these is a virtual machine.
		"youki": true, "nvidia": true, "nvidia-container-runtime": true, "spin": true, "io.containerd.spin.v2": true,
		"wasmtime": true, "io.containerd.wasmedge.v1": true,
		// Virtual machines, and names nobody knows.
		"kata": false, "kata-qemu": false, "io.containerd.kata.v2": false, "krun": false, "": false, "my-vm": false,
	} {
		if got := IsKnownNonVaultRuntime(name); got != want {
			t.Errorf("%q: %v, want %v", name, got, want)
		}
	}
}
