package control

import (
	"testing"

	"github.com/google/uuid"
)

// A sidecar that takes a dead one's place finds the same socket and the same
// configuration, is ready when it says so itself, and its records are kept.
func TestExpectAnotherSidecar(t *testing.T) {
	b, id, files := newBench(t), uuid.New(), filesDir(t)
	if _, err := b.Expect(id); err == nil {
		t.Error("an unknown run is expected")
	}
	first := b.open(t, id, files, nil)
	c := sidecar(t, first, tokenOf(id))
	if err := c.Ready(t.Context()); err != nil {
		t.Fatal(err)
	}
	post(t, c, decision(id, 1))
	second, err := b.Expect(id)
	if err != nil || second.Dir != first.Dir {
		t.Fatalf("%+v, %v", second, err)
	}
	select {
	case <-second.Ready:
		t.Error("ready by the word of the sidecar that died")
	default:
	}
	c = sidecar(t, second, tokenOf(id))
	if _, err := c.Config(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := c.Ready(t.Context()); err != nil {
		t.Fatal(err)
	}
	<-second.Ready
	post(t, c, decision(id, 1)) // its own first, not the other's sent again
	if got := lines(t, files); len(got) != 2 {
		t.Errorf("%d records", len(got))
	}
	if err := b.Close(id); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Expect(id); err == nil {
		t.Error("a closed run is expected")
	}
}
