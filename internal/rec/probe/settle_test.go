package probe

import (
	"net"
	"testing"
	"time"
)

// The first target's verdict ends the waiting for silent ones, and nothing else
// does: what answers before it is heard, however short the time after it.
func TestNetSettles(t *testing.T) {
	silent, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	slow, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer slow.Close()
	go func() {
		_, from, err := slow.ReadFrom(make([]byte, 100))
		if err == nil {
			time.Sleep(100 * time.Millisecond)
			slow.WriteTo([]byte("here"), from)
		}
	}()
	quiet, late := "udp:"+silent.LocalAddr().String(), "udp:"+slow.LocalAddr().String()

	// With the whole timeout the test would not end.
	got := verdicts(t, "-timeout", "24h", "-settle", "50ms", "tcp:"+refusing(t), quiet, "tcp:"+fullListener(t))
	if !got[0].Reached || got[1] != (NetResult{quiet, false, "no answer"}) || got[2].Detail != "no answer" {
		t.Errorf("%+v", got)
	}
	got = verdicts(t, "-settle", "1ns", "-timeout", "2s", quiet, late)
	if got[0].Reached || !got[1].Reached {
		t.Errorf("a slow answer: %+v", got)
	}
}
