package control

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/wardyn/nomad-driver-wardyn/internal/proxy/controlplane"
	"github.com/wardyn/nomad-driver-wardyn/runner"
	"github.com/wardyn/nomad-driver-wardyn/runner/egress"
	"github.com/wardyn/nomad-driver-wardyn/runner/types"
)

// openReview opens a run whose policy raises approvals.
func (b *bench) openReview(t *testing.T, id uuid.UUID, files string, told func(Approval)) *controlplane.Client {
	t.Helper()
	if err := b.Prepare(Run{ID: id, FilesDir: files, OnApproval: told}); err != nil {
		t.Fatal(err)
	}
	raw, err := runner.BuildProxyConfig(id, runner.ProxyConfig{
		RunToken: tokenOf(id), ControlPlaneURL: egress.LocalControlURL,
		Policy: types.RunPolicySpec{FirstUseApproval: types.WaitForReview},
	}, runner.ProxyListenPort)
	if err != nil {
		t.Fatal(err)
	}
	e, err := b.Open(t.Context(), id, raw, runNet)
	if err != nil {
		t.Fatal(err)
	}
	return sidecar(t, e, tokenOf(id))
}

func raise(t *testing.T, c *controlplane.Client, id uuid.UUID, host string, port int) egress.ApprovalRequest {
	t.Helper()
	a, err := c.Raise(t.Context(), id, egress.ApprovalScope{Host: host, Port: port, Mode: types.WaitForReview})
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func state(t *testing.T, c *controlplane.Client, id uuid.UUID) egress.ApprovalState {
	t.Helper()
	a, err := c.Approval(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	return a.State
}

func approve(scope Scope, d time.Duration) Ruling {
	return Ruling{To: egress.ApprovalApproved, Scope: scope, For: d, By: "the test", Note: "looks fine"}
}

var deny = Ruling{To: egress.ApprovalDenied, By: "the test"}

func TestK34ApprovalsAreForOneHostAndPort(t *testing.T) {
	b, id := newBench(t), uuid.New()
	var told []Approval
	c := b.openReview(t, id, filesDir(t), func(a Approval) { told = append(told, a) })
	first := raise(t, c, id, "New.Example.", 443)
	if first.State != egress.ApprovalPending || first.RunID != id || first.Kind != "egress_domain" {
		t.Errorf("raised %+v", first)
	}
	if again := raise(t, c, id, "new.example", 443); again.ID != first.ID {
		t.Error("one host and port was raised twice")
	}
	other := raise(t, c, id, "new.example", 8443)
	if other.ID == first.ID {
		t.Error("G9: another port is covered")
	}
	if _, err := b.Decide(id, first.ID.String()[:8], approve("", 0)); err != nil {
		t.Fatal(err)
	}
	if got := state(t, c, first.ID); got != egress.ApprovalApproved {
		t.Errorf("approved: %s", got)
	}
	if got := state(t, c, other.ID); got != egress.ApprovalPending {
		t.Errorf("the other port: %s", got)
	}
	if _, err := b.Decide(id, "new.example:8443", deny); err != nil {
		t.Fatal(err)
	}
	if got := state(t, c, other.ID); got != egress.ApprovalDenied {
		t.Errorf("denied: %s", got)
	}
	if len(told) != 4 || told[0].Host != "new.example" || told[2].State != egress.ApprovalApproved || told[2].DecidedBy != "the test" {
		t.Errorf("told %+v", told)
	}
	if _, err := b.Decide(id, first.ID.String(), deny); err != nil { // taken back
		t.Fatal(err)
	}
	if got := state(t, c, first.ID); got != egress.ApprovalDenied {
		t.Errorf("revoked: %s", got)
	}
	last := told[len(told)-1]
	if !last.Revoked || len(last.Earlier) != 1 || last.Earlier[0].State != egress.ApprovalApproved || last.Earlier[0].DecidedBy != "the test" || last.Earlier[0].DecidedAt.IsZero() {
		t.Errorf("told %+v", last)
	}
}

// TestK34WhoDecidedBefore: a decision that takes the place of another leaves
// word of it, also when the file was read anew.
func TestK34WhoDecidedBefore(t *testing.T) {
	b, id, dir := newBench(t), uuid.New(), filesDir(t)
	c := b.openReview(t, id, dir, nil)
	a := raise(t, c, id, "new.example", 443)
	for n := range maxEarlier + 3 {
		if _, err := b.Decide(id, a.ID.String(), Ruling{To: egress.ApprovalApproved, By: fmt.Sprintf("person %d", n), Note: "n"}); err != nil {
			t.Fatal(err)
		}
	}
	list := b.Approvals(id)
	if len(list) != 1 || len(list[0].Earlier) != maxEarlier || list[0].Earlier[maxEarlier-1].DecidedBy != fmt.Sprintf("person %d", maxEarlier+1) {
		t.Fatalf("%+v", list)
	}
	if err := b.Close(id); err != nil {
		t.Fatal(err)
	}
	b.openReview(t, id, dir, nil)
	if got := b.Approvals(id); !reflect.DeepEqual(got, list) {
		t.Errorf("read anew: %+v, want %+v", got, list)
	}
}

func TestK34WhatCannotBeDecided(t *testing.T) {
	b, id, stranger := newBench(t), uuid.New(), uuid.New()
	c := b.openReview(t, id, "", nil)
	a := raise(t, c, id, "new.example", 443)
	b.openReview(t, stranger, "", nil)
	for name, try := range map[string]func() error{
		"another run's":    func() error { _, err := b.Decide(stranger, a.ID.String(), approve("", 0)); return err },
		"an unknown run's": func() error { _, err := b.Decide(uuid.New(), a.ID.String(), approve("", 0)); return err },
		"too short":        func() error { _, err := b.Decide(id, a.ID.String()[:3], approve("", 0)); return err },
		"an odd scope":     func() error { _, err := b.Decide(id, a.ID.String(), approve("world", 0)); return err },
		"no ruling":        func() error { _, err := b.Decide(id, a.ID.String(), Ruling{}); return err },
	} {
		if try() == nil {
			t.Errorf("%s: decided", name)
		}
	}
	if _, err := b.Decide(id, a.ID.String(), deny); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Decide(id, a.ID.String(), approve("", 0)); !errors.Is(err, ErrDecided) {
		t.Errorf("a denial is not final: %v", err)
	}
	for name, in := range map[string]string{
		"another run's": `{"run_id":"` + stranger.String() + `","kind":"egress_domain","requested_scope":{"host":"a.example","port":443}}`,
		"another kind":  `{"kind":"credential","requested_scope":{"host":"a.example","port":443}}`,
		"no host":       `{"kind":"egress_domain","requested_scope":{"port":443}}`,
		"no port":       `{"kind":"egress_domain","requested_scope":{"host":"a.example"}}`,
	} {
		resp, err := c.Do(t.Context(), "POST", egress.PathApprovals, strings.NewReader(in), "application/json", int64(len(in)))
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode/100 == 2 {
			t.Errorf("%s: raised", name)
		}
	}
}

// A run whose policy asks nobody raises nothing, whatever its sidecar says.
func TestK34PolicyWithoutReview(t *testing.T) {
	b, id := newBench(t), uuid.New()
	c := sidecar(t, b.open(t, id, "", nil), tokenOf(id))
	if _, err := c.Raise(t.Context(), id, egress.ApprovalScope{Host: "a.example", Port: 443, Mode: types.WaitForReview}); err == nil {
		t.Error("raised")
	}
}

func TestK34ScopesOverAttemptsAndRestarts(t *testing.T) {
	b, first, second, files := newBench(t), uuid.New(), uuid.New(), filesDir(t)
	c := b.openReview(t, first, files, nil)
	kept, lost := raise(t, c, first, "kept.example", 443), raise(t, c, first, "attempt.example", 443)
	open := raise(t, c, first, "open.example", 443)
	for id, scope := range map[uuid.UUID]Scope{kept.ID: ScopeSession, lost.ID: ScopeAttempt} {
		if _, err := b.Decide(first, id.String(), approve(scope, 0)); err != nil {
			t.Fatal(err)
		}
	}
	b.restart(t)
	if _, err := b.Resume(t.Context(), Run{ID: first, FilesDir: files}); err != nil {
		t.Fatal(err)
	}
	for id, want := range map[uuid.UUID]egress.ApprovalState{kept.ID: "APPROVED", lost.ID: "APPROVED", open.ID: "PENDING"} {
		if got := state(t, c, id); got != want {
			t.Errorf("after a restart: %s, want %s", got, want)
		}
	}
	if err := errors.Join(b.Forget(first), b.dir.RemoveRunDir(first)); err != nil {
		t.Fatal(err)
	}
	c = b.openReview(t, second, files, nil) // the task is restarted
	if got := raise(t, c, second, "kept.example", 443); got.ID != kept.ID || got.State != egress.ApprovalApproved || got.RunID != second {
		t.Errorf("scope session: %+v", got)
	}
	if got := raise(t, c, second, "attempt.example", 443); got.ID == lost.ID || got.State != egress.ApprovalPending {
		t.Errorf("scope attempt: %+v", got)
	}
	fi, err := os.Stat(filepath.Join(files, approvalsName))
	if err != nil || fi.Mode().Perm() != 0o600 {
		t.Errorf("the file: %v, %v", fi, err)
	}
}

func TestK34Expiry(t *testing.T) {
	b, id, files := newBench(t), uuid.New(), filesDir(t)
	c := b.openReview(t, id, files, nil)
	short, stale := raise(t, c, id, "short.example", 443), raise(t, c, id, "stale.example", 443)
	if _, err := b.Decide(id, short.ID.String(), approve("", time.Nanosecond)); err != nil {
		t.Fatal(err)
	}
	if got := state(t, c, short.ID); got != egress.ApprovalExpired {
		t.Errorf("past its end: %s", got)
	}
	if again := raise(t, c, id, "short.example", 443); again.ID == short.ID || again.State != egress.ApprovalPending {
		t.Errorf("G9: expired is no denial: %+v", again)
	}
	// A question of long ago, as the file would hold it.
	var have sealedApprovals
	raw, err := os.ReadFile(filepath.Join(files, approvalsName))
	if err == nil {
		err = json.Unmarshal(raw, &have)
	}
	if err != nil {
		t.Fatal(err)
	}
	for i := range have.Approvals {
		have.Approvals[i].RequestedAt = have.Approvals[i].RequestedAt.Add(-2 * pendingLife)
	}
	plantApprovals(t, files, sealFor(b.dir, Owner{}), have.Approvals)
	if err := b.Prepare(Run{ID: id, FilesDir: files}); err != nil {
		t.Fatal(err)
	}
	if got := state(t, c, stale.ID); got != egress.ApprovalExpired {
		t.Errorf("nobody answered: %s", got)
	}
}

func TestK34OpenQuestionsAreBounded(t *testing.T) {
	var a approvals
	run := uuid.New()
	for i := range maxPending {
		if _, fresh, err := a.raise(run, "a.example", i+1, types.WaitForReview); err != nil || !fresh {
			t.Fatal(err)
		}
	}
	if _, _, err := a.raise(run, "b.example", 443, types.WaitForReview); err == nil {
		t.Error("raised over the cap")
	}
	for i := range 2 * maxApprovals { // decided ones make room
		x, _, err := a.raise(run, "c.example", i+1, types.WaitForReview)
		if err != nil {
			if _, derr := a.decide(run, "a.example:1", deny); derr == nil {
				continue
			}
			t.Fatal(err)
		}
		if _, err := a.decide(run, x.ID.String(), deny); err != nil {
			t.Fatal(err)
		}
	}
	if len(a.list) != maxApprovals {
		t.Errorf("%d kept", len(a.list))
	}
}

// plantApprovals writes a session's file under a seal.
func plantApprovals(t *testing.T, files string, s seal, list []Approval) {
	t.Helper()
	sum, err := s.of(list)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := json.Marshal(sealedApprovals{list, sum})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(files, approvalsName), raw, 0o600); err != nil {
		t.Fatal(err)
	}
}

// K34: a client unpacks a job's artifacts as root, wherever in the task's folder
// the job says: nobody approves for himself by way of a file.
func TestK34PlantedApprovals(t *testing.T) {
	b, owner := newBench(t), Owner{Namespace: "default", Alloc: "alloc", Task: "web"}
	mine := sealFor(b.dir, owner)
	list := []Approval{{
		ID: uuid.New(), Host: "evil.example", Port: 443, State: egress.ApprovalApproved, RequestedAt: time.Now().UTC(),
		DecidedBy: "root on the node", Note: "caf\xe9 \u202e", Scope: ScopeSession,
	}}
	for name, c := range map[string]struct {
		seal  seal
		taken bool
	}{
		"this session's":    {mine, true},
		"no seal":           {func(string) string { return "" }, false},
		"another task's":    {sealFor(b.dir, Owner{Namespace: "default", Alloc: "alloc", Task: "db"}), false},
		"another session's": {sealFor(b.dir, Owner{Namespace: "default", Alloc: "other", Task: "web"}), false},
	} {
		files := filesDir(t)
		if err := os.Mkdir(files, 0o700); err != nil {
			t.Fatal(err)
		}
		plantApprovals(t, files, c.seal, list)
		id := uuid.New()
		err := b.Prepare(Run{ID: id, Owner: owner, FilesDir: files})
		if (err == nil) != c.taken || len(b.Approvals(id)) > 0 != c.taken {
			t.Errorf("%s: %v, and %d approvals", name, err, len(b.Approvals(id)))
		}
	}
	files := filesDir(t)
	if err := os.Mkdir(files, 0o700); err != nil {
		t.Fatal(err)
	}
	plantApprovals(t, files, mine, list)
	raw, err := os.ReadFile(filepath.Join(files, approvalsName))
	if err != nil {
		t.Fatal(err)
	}
	raw = []byte(strings.Replace(string(raw), "evil.example", "more.example", 1))
	if err := os.WriteFile(filepath.Join(files, approvalsName), raw, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := b.Prepare(Run{ID: uuid.New(), Owner: owner, FilesDir: files}); err == nil {
		t.Error("a changed file is taken")
	}
}
