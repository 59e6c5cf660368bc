package control

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/uuid"

	"github.com/wardyn/nomad-driver-wardyn/runner/egress"
)

func TestK34RootOnTheNodeDecides(t *testing.T) {
	b, first, second := newBench(t), uuid.New(), uuid.New()
	path := filepath.Join(b.dir.RunRoot(), CtlSocket)
	t.Cleanup(func() {
		if err := errors.Join(os.Remove(path), b.dir.RemoveRunDir(first), b.dir.RemoveRunDir(second)); err != nil {
			t.Error(err)
		}
	})
	if err := b.ServeCtl(path); err != nil {
		t.Fatal(err)
	}
	fi, err := os.Lstat(path)
	if err != nil || fi.Mode() != os.ModeSocket|0o600 || fi.Sys().(*syscall.Stat_t).Uid != 0 {
		t.Errorf("the socket: %v, %v", fi, err)
	}
	c := b.openReview(t, first, "", nil)
	if err := b.Prepare(Run{ID: second, Owner: Owner{Namespace: "n", Job: "j", Alloc: "a", Task: "t"}}); err != nil {
		t.Fatal(err)
	}
	one := raise(t, c, first, "one.example", 443)
	s, _, err := b.get(second).approvals.raise(second, "two.example", 443, "wait_for_review")
	if err != nil {
		t.Fatal(err)
	}
	ctl := NewCtl(path)
	list, err := ctl.Approvals(t.Context())
	if err != nil || len(list) != 2 || list[1].Job != "j" || list[1].Host != "two.example" {
		t.Errorf("%+v, %v", list, err)
	}
	a, err := ctl.Decide(t.Context(), Order{Ref: "one.example:443", To: egress.ApprovalApproved, ForSeconds: 60, Note: "ok"})
	if err != nil || a.ID != one.ID || a.DecidedBy != "root on the node" || a.Note != "ok" || a.Until.IsZero() {
		t.Errorf("%+v, %v", a, err)
	}
	if got := state(t, c, one.ID); got != egress.ApprovalApproved {
		t.Errorf("approved: %s", got)
	}
	for name, o := range map[string]Order{
		"nobody's": {Ref: "three.example:443", To: egress.ApprovalApproved}, "no ruling": {Ref: s.ID.String()},
		"an odd scope": {Ref: s.ID.String(), To: egress.ApprovalApproved, Scope: "world"},
		"a long note":  {Ref: s.ID.String(), To: egress.ApprovalApproved, Note: strings.Repeat("x", maxNote+1)},
	} {
		if _, err := ctl.Decide(t.Context(), o); err == nil {
			t.Errorf("%s: decided", name)
		}
	}
	same, _, err := b.get(second).approvals.raise(second, "one.example", 443, "wait_for_review")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := ctl.Decide(t.Context(), Order{Ref: "one.example:443", To: egress.ApprovalDenied}); err == nil {
		t.Errorf("a name that two tasks asked for was decided, %v", same)
	}
	b.restart(t)
	if _, err := ctl.Approvals(t.Context()); err == nil {
		t.Error("the socket of an ended process answers")
	}
	if err := b.ServeCtl(path); err != nil { // the next process takes its place
		t.Fatal(err)
	}
	if list, err := ctl.Approvals(t.Context()); err != nil || len(list) != 0 {
		t.Errorf("%v, %v", list, err)
	}
}

// A process that had the node's socket, and has it again after another, serves
// it again.
func TestK34CtlSocketIsTakenBack(t *testing.T) {
	b, other := newBench(t), newBench(t)
	path := filepath.Join(t.TempDir(), "s")
	for _, s := range []*bench{b, other, b} {
		if err := s.ServeCtl(path); err != nil {
			t.Fatal(err)
		}
	}
	other.Shutdown()
	if list, err := NewCtl(path).Approvals(t.Context()); err != nil || len(list) != 0 {
		t.Errorf("%v, %v", list, err)
	}
}

// The mode of the socket is one wall, the kernel's word on the caller another.
func TestK34TheSocketIsForTheDriversUserAlone(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root to become somebody else")
	}
	b := newBench(t)
	dir, err := os.MkdirTemp("", "ctl")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "s")
	if err := errors.Join(b.ServeCtl(path), os.Chmod(dir, 0o755), os.Chmod(path, 0o666)); err != nil {
		t.Fatal(err)
	}
	answer := asUser(t, 65534, func() (net.Conn, error) { return net.Dial("unix", path) })
	if !strings.Contains(answer, " 403 ") {
		t.Errorf("somebody else: %s", answer)
	}
}
