package egress

import (
	"bytes"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/docker/docker/api/types/container"

	"github.com/wardyn/nomad-driver-wardyn/internal/testenv"
	"github.com/wardyn/nomad-driver-wardyn/plugin/host"
)

const (
	rendered = "rendered-by-a-template-5f2a"
	rotated  = "rotated-by-a-template-77c1"
	operator = "kept-by-the-operator-90de"
)

const ask = "/bin/client https://api.example.internal/v1/messages x-api-key=the-sandbox-s-own"

// TestI3InjectedSecretIsNowhere: the upstream receives it, and nothing that
// anybody can look at holds it.
func TestI3InjectedSecretIsNowhere(t *testing.T) {
	key := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(key, []byte(operator+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	r := newRig(t, map[string]any{"credential": []any{map[string]any{"corp": []any{map[string]any{
		"file": key, "hosts": []any{"other.example.internal"}, "headers": []any{"Authorization"}, "namespaces": []any{"default"},
		"cleartext": []any{"other.example.internal:8080"},
	}}}}})
	r.up.mux.HandleFunc("/away", func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, r.URL.Query().Get("to"), http.StatusTemporaryRedirect)
	})
	each(t, func(t *testing.T, class string) {
		w := r.prepare(t, class, map[string]any{
			"egress": []any{map[string]any{"allow": []any{"api.example.internal", "other.example.internal", "git.example.internal:8080"}}},
			"record": true,
			"inject": []any{
				map[string]any{"model": []any{map[string]any{"host": "api.example.internal", "header": "x-api-key", "secret_file": "secrets/api.key"}}},
				map[string]any{"corp": []any{map[string]any{"host": "other.example.internal", "credential": "corp"}}},
			},
		})
		w.secret(t, "api.key", rendered)
		if err := w.Start(deadline(t)); err != nil {
			t.Fatal(err)
		}
		out := w.sh(t, ask)
		if got := r.up.last("X-Api-Key"); got != rendered {
			t.Errorf("the upstream received %q", got)
		}
		if !strings.Contains(out, "200 hello from api.example.internal/v1/messages") {
			t.Errorf("the answer: %s", out)
		}
		if strings.Contains(out, rendered) {
			t.Error("the echo of the secret reaches the sandbox")
		}
		out += w.sh(t, "/bin/client https://other.example.internal/")
		if got := r.up.last("Authorization"); got != "Bearer "+operator {
			t.Errorf("the upstream received %q", got)
		}
		out += w.sh(t, "/bin/client http://other.example.internal:8080/")
		if got := r.up.last("Authorization"); got != "Bearer "+operator {
			t.Errorf("G19: in the clear, by the operator's word, the upstream received %q", got)
		}
		// A redirect to another host takes nothing along.
		out += w.sh(t, "/bin/client 'http://other.example.internal:8080/away?to=http://git.example.internal:8080/'")
		if got := r.up.last("Authorization"); got != "" {
			t.Errorf("G19: after a redirect the upstream received %q", got)
		}
		w.secret(t, "api.key", rotated+"\n")
		eventually(t, "the changed secret", func() bool { out += w.sh(t, ask); return r.up.last("X-Api-Key") == rotated })
		out += w.sh(t, ask+"; (kept=$("+ask+"); sleep 3600; echo $kept) >/dev/null 2>&1 &") // an answer stays in memory
		out += w.atTerminal(t, ask)
		w.memoryHoldsNone(t, rotated, rendered, rotated, operator) // before anything looks for them inside
		w.holdsNone(t, out, rendered, rotated, operator)

		// Plain HTTP would show it to the network.
		for _, target := range []string{"http://api.example.internal/", "http://api.example.internal:8080/", "http://other.example.internal/"} {
			if out := w.sh(t, "/bin/client "+target); !strings.Contains(out, "builtin:cleartext-credential") {
				t.Errorf("G19: %s: %s", target, out)
			}
		}
		// What is gone is not sent, and nothing goes without it.
		if err := os.Remove(filepath.Join(w.Dir().Secrets, "api.key")); err != nil {
			t.Fatal(err)
		}
		eventually(t, "a refusal", func() bool { return strings.Contains(w.sh(t, ask), "502 ") })
	})
}

// atTerminal runs a command at a terminal, which is recorded with all that it
// shows, and returns the recordings.
func (w *work) atTerminal(t *testing.T, script string) string {
	t.Helper()
	var shown testenv.Buffer
	if _, err := w.Exec(deadline(t), host.ExecRequest{Command: []string{"/bin/sh", "-c", script}, TTY: true, Stdout: &shown}); err != nil {
		t.Fatal(err)
	}
	var casts strings.Builder
	eventually(t, "what the terminal shows in a recording", func() bool {
		casts.Reset()
		files, _ := filepath.Glob(filepath.Join(w.Dir().Dir, "wardyn", "*.cast"))
		for _, f := range files {
			b, err := os.ReadFile(f)
			if err != nil {
				t.Fatal(err)
			}
			casts.Write(b)
		}
		return strings.Contains(casts.String(), "hello from api.example.internal")
	})
	return shown.String() + casts.String()
}

// holdsNone looks for secrets wherever something of the run is shown,
// kept or readable. printed is what the sandbox's programs printed.
func (w *work) holdsNone(t *testing.T, printed string, secrets ...string) {
	t.Helper()
	places := map[string]string{
		"output": printed + w.out.String(), "the driver's log": w.rig.log.String(), "events": w.rig.told(w.ID()),
		"driver state": string(w.Handle().DriverState), "status": w.exec(t, "wardyn", "status", "-json"),
		"decisions": w.recorded(t, ".example.internal"), "environment": w.sh(t, "cat /proc/*/environ | tr '\\0' '\\n'"),
	}
	for name, id := range w.containers(t) {
		_, raw, err := w.rig.engine.ContainerInspectWithRaw(deadline(t), id, true)
		if err != nil {
			t.Fatal(err)
		}
		places["inspect of "+name] = string(raw)
		logs, err := w.rig.engine.ContainerLogs(deadline(t), id, container.LogsOptions{ShowStdout: true, ShowStderr: true})
		if err != nil {
			t.Fatal(err)
		}
		var b bytes.Buffer
		io.Copy(&b, logs)
		logs.Close()
		places["log of "+name] = b.String()
	}
	err := filepath.WalkDir(filepath.Join(w.Dir().Dir, "wardyn"), func(p string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := os.ReadFile(p)
		places[p] = string(b)
		return err
	})
	if err != nil {
		t.Error(err)
	}
	for place, text := range places {
		for _, s := range secrets {
			if strings.Contains(text, s) {
				t.Errorf("%s holds %s", place, s)
			}
		}
	}
	// The halves are put together inside, so that the search does not find itself.
	for _, s := range secrets {
		script := "a=" + s[:8] + "; b=" + s[8:] + `; find / -xdev -type f ! -path "/proc/*" ! -path "/sys/*" -exec grep -l "$a$b" {} + ; grep -r -l "$a$b" /tmp /local /alloc /dev/shm 2>/dev/null`
		if found := strings.TrimSpace(w.sh(t, script)); found != "" {
			t.Errorf("the sandbox holds %s: %s", s, found)
		}
	}
}

// TestK41Intercept: what an author may have opened is the operator's to bound,
// and programs trust the run's CA without being told.
func TestK41Intercept(t *testing.T) {
	r := newRig(t, map[string]any{"allow_intercept": []any{"api.example.internal"}})
	bothAtOnce(t, func(t *testing.T, class string) {
		w := r.start(t, class, map[string]any{"egress": []any{map[string]any{
			"allow": []any{"api.example.internal", "other.example.internal"}, "intercept": []any{"api.example.internal"}, "methods": []any{"GET", "CONNECT"},
		}}})
		if out := w.sh(t, "/bin/client https://api.example.internal/v1"); !strings.Contains(out, "200 hello") {
			t.Errorf("the opened host: %s", out)
		}
		w.recorded(t, `"mitm": true`, `"path": "/v1"`)
		// A host that is not opened is verified by its own CA, which the
		// sandbox does not know.
		if out := w.sh(t, "/bin/client https://other.example.internal/"); !strings.Contains(out, "unknown authority") {
			t.Errorf("the other host: %s", out)
		}
	})
}
