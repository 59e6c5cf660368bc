package testenv

import (
	"bytes"
	"sync"
	"testing"
	"time"
)

// Patience bounds what a test waits for. Nothing is measured against it: a
// machine that is busy with other things must not make a test red.
const Patience = 2 * time.Minute

// Eventually waits for what another goroutine, process or engine brings about,
// and fails the test when it does not come within [Patience].
func Eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(Patience); !ok(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("still not after %v: %s", Patience, what)
		}
	}
}

// Await waits for what another goroutine tells by a channel, its end included,
// and fails the test when nothing comes within [Patience].
func Await[T any](t testing.TB, what string, told <-chan T) T {
	t.Helper()
	select {
	case v := <-told:
		return v
	case <-time.After(Patience):
		t.Fatalf("still not after %v: %s", Patience, what)
		panic("not reached")
	}
}

// Buffer collects what several goroutines write. Its zero value is empty.
type Buffer struct {
	mu sync.Mutex // guards what follows
	b  bytes.Buffer
}

// Write appends p; it never fails.
func (b *Buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

// String is all that was written up to now.
func (b *Buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}
