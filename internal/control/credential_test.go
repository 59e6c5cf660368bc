package control

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/wardyn/nomad-driver-wardyn/internal/proxy/controlplane"
	"github.com/wardyn/nomad-driver-wardyn/runner/egress"
)

// secretFile is a source that can change and vanish.
type secretFile string

func (f secretFile) read() (string, error) {
	b, err := os.ReadFile(string(f))
	return string(b), err
}

func newSecret(t *testing.T, text string) secretFile {
	t.Helper()
	f := secretFile(filepath.Join(t.TempDir(), "key"))
	f.write(t, text)
	return f
}

func (f secretFile) write(t *testing.T, text string) {
	t.Helper()
	if err := os.WriteFile(string(f), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func inject(f secretFile) Credential {
	return Credential{Grant: uuid.New(), Read: f.read,
		Rule: egress.InjectionRule{Host: "api.example", Header: "Authorization", SecretName: "model", Format: "Bearer {secret}"}}
}

func (b *bench) openWith(t *testing.T, files string, creds ...Credential) (uuid.UUID, egress.Endpoint, *controlplane.Client) {
	t.Helper()
	id := uuid.New()
	if err := b.Prepare(Run{ID: id, FilesDir: files, Credentials: creds}); err != nil {
		t.Fatal(err)
	}
	e, err := b.Open(t.Context(), id, proxyConfig(t, id), runNet)
	if err != nil {
		t.Fatal(err)
	}
	return id, e, sidecar(t, e, tokenOf(id))
}

func TestInjectionIsReadAnewAndFailsClosed(t *testing.T) {
	b, f := newBench(t), newSecret(t, "first-secret\n")
	c := inject(f)
	_, _, s := b.openWith(t, "", c)
	got, err := s.Injection(t.Context(), c.Grant)
	if err != nil || got.Value != "Bearer first-secret" || got.Host != "api.example" || got.Header != "Authorization" {
		t.Errorf("%+v, %v", got, err)
	}
	f.write(t, "second-secret")
	if got, _ = s.Injection(t.Context(), c.Grant); got.Value != "Bearer second-secret" {
		t.Errorf("after the file changed: %q", got.Value)
	}
	for _, bad := range []string{"", "short", "two\nlines-of-it", "bell\a-in-it-somewhere", strings.Repeat("x", maxCredential+1)} {
		f.write(t, bad)
		var se *controlplane.StatusError
		if _, err := s.Injection(t.Context(), c.Grant); !errors.As(err, &se) {
			t.Errorf("%.20q is injected: %v", bad, err)
		}
	}
	if err := os.Remove(string(f)); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Injection(t.Context(), c.Grant); err == nil {
		t.Error("a secret that is gone is injected")
	}
}

func TestGrantsAreForWhatTheyAreFor(t *testing.T) {
	b := newBench(t)
	c, token := inject(newSecret(t, "injected-secret")), Credential{Grant: uuid.New(), Read: newSecret(t, "git-token-secret").read}
	_, e, s := b.openWith(t, "", c, token)
	other, _, _ := b.openWith(t, "")
	if m, err := s.Mint(t.Context(), token.Grant); err != nil || m.Token != "git-token-secret" || time.Until(time.UnixMilli(m.ExpiresAt)) > mintedLife {
		t.Errorf("%+v, %v", m, err)
	}
	if _, err := s.Mint(t.Context(), c.Grant); err == nil {
		t.Error("a grant to inject was minted")
	}
	if _, err := s.Injection(t.Context(), token.Grant); err == nil {
		t.Error("a token was injected")
	}
	status, body := request(t, e, "GET", egress.PathInjection+"/"+c.Grant.String(), "Bearer "+tokenOf(other), "")
	if status != 401 || strings.Contains(body, "injected-secret") {
		t.Errorf("another run's token: %d %s", status, body)
	}
}

// Invariant 3: what a sidecar carries for the sandbox itself gets no secret.
func TestI3NoSecretOnBehalfOfTheSandbox(t *testing.T) {
	b := newBench(t)
	token := Credential{Grant: uuid.New(), Read: newSecret(t, "git-token-secret").read}
	_, _, s := b.openWith(t, "", token)
	in := `{"grant_id":"` + token.Grant.String() + `"}`
	resp, err := s.Do(t.Context(), "POST", egress.PathMint, strings.NewReader(in), "application/json", int64(len(in)))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != 403 {
		t.Errorf("status %d", resp.StatusCode)
	}
}

func TestI3SecretsAreMaskedInRecords(t *testing.T) {
	b, f, files := newBench(t), newSecret(t, "first-secret"), filesDir(t)
	c := inject(f)
	id, _, s := b.openWith(t, files, c)
	echo := decision(id, 1)
	echo.Request.Path = "/first-secret"
	post(t, s, echo) // before it was ever injected
	f.write(t, "second-secret")
	if _, err := s.Injection(t.Context(), c.Grant); err != nil {
		t.Fatal(err)
	}
	echo = decision(id, 2)
	echo.Cause = "the origin said second-secret and first-secret"
	post(t, s, echo)
	text, err := os.ReadFile(filepath.Join(files, journalName))
	if err != nil || strings.Contains(string(text), "-secret\"") || strings.Contains(string(text), "first-secret") || strings.Contains(string(text), "second-secret") {
		t.Errorf("%v\n%s", err, text)
	}
}

func TestBatchesAreKeptOnce(t *testing.T) {
	b, id, files := newBench(t), uuid.New(), filesDir(t)
	e := b.open(t, id, files, nil)
	c := sidecar(t, e, tokenOf(id))
	many := func(from, to uint64) (out []byte) {
		for n := from; n <= to; n++ {
			out = append(append(out, encode(t, decision(id, n))...), '\n')
		}
		return out
	}
	for _, body := range [][]byte{many(1, 10), many(1, 10), many(5, 16)} {
		if err := c.Decisions(t.Context(), body); err != nil {
			t.Fatal(err)
		}
	}
	b.restart(t)
	if _, err := b.Resume(t.Context(), Run{ID: id, FilesDir: files}); err != nil {
		t.Fatal(err)
	}
	if err := c.Decisions(t.Context(), many(8, 20)); err != nil {
		t.Fatal(err)
	}
	got := lines(t, files)
	for i, r := range got {
		if r.Seq != uint64(i+1) || r.FlowSeq != uint64(i+1) {
			t.Errorf("record %d: seq %d of %d", i, r.Seq, r.FlowSeq)
		}
	}
	if len(got) != 20 {
		t.Errorf("%d records, want 20", len(got))
	}
	// One that cannot be kept is counted, and takes no other with it.
	foreign := append(append(encode(t, decision(uuid.New(), 21)), '\n'), many(22, 22)...)
	if err := c.Decisions(t.Context(), foreign); err != nil {
		t.Fatal(err)
	}
	sum, _ := b.Summary(id)
	if sum.LostBySidecar != 1 || sum.Denied != 21 {
		t.Errorf("%+v", sum)
	}
}
