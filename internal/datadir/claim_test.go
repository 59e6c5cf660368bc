package datadir

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"
)

func TestK40OneClaimAtATime(t *testing.T) {
	d := open(t)
	a, b := d.Claim(), d.Claim()
	for range 2 {
		if err := a.Take(t.Context(), 0); err != nil {
			t.Fatal(err)
		}
	}
	if who := d.Claimed(); who == nil || who.By != os.Getpid() {
		t.Errorf("looked at, it is had by %v", who)
	}
	err := b.Take(t.Context(), 10*time.Millisecond)
	if err == nil {
		t.Fatal("two have the claim")
	}
	for _, part := range []string{d.Path(), fmt.Sprint("process ", os.Getpid()), "data_dir of its own"} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("the message lacks %q: %v", part, err)
		}
	}
	time.AfterFunc(20*time.Millisecond, a.Give)
	if err := b.Take(t.Context(), time.Minute); err != nil {
		t.Errorf("a claim that was given up: %v", err)
	}
	a.Give()
	if err := a.Take(t.Context(), 0); err == nil {
		t.Error("giving up twice took it from another")
	}
	b.Give()
	if who := d.Claimed(); who != nil || d.LastClaimant() != os.Getpid() {
		t.Errorf("given up, it is had by %v, and was last by process %d", who, d.LastClaimant())
	}
}
