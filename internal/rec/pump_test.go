package rec

import (
	"io"
	"os"
	"testing"
	"time"
)

// Invariant 5: what a command has written before its end is delivered, also by a
// copier that a busy machine keeps from running for longer than it would wait,
// and while a child of the command holds the stream open.
func TestI5WhatWasWrittenIsDelivered(t *testing.T) {
	out, in, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	p, err := newPump(int(in.Fd()))
	if err != nil {
		t.Fatal(err)
	}
	defer p.w.Close()
	p.quiet = -time.Second // it is over before the copier reads
	const text = "last words\n"
	io.WriteString(p.w, text)
	p.r.SetReadDeadline(time.Unix(1, 0)) // as at the command's end
	if !p.run() {
		t.Error("nobody reads the output")
	}
	in.Close()
	p.out.Close()
	if b, err := io.ReadAll(out); string(b) != text {
		t.Errorf("%q, %v", b, err)
	}
}
