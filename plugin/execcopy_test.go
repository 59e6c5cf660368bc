package plugin

import (
	"bytes"
	"io"
	"testing"
	"time"
)

// TestB15GatheredOutputIsWhole: what comes while a message is being sent goes
// out with the next one, in order and whole; less than most at once, and all of
// it although it comes in pieces larger than that.
func TestB15GatheredOutputIsWhole(t *testing.T) {
	want := make([]byte, 3*mostGathered+7)
	for i := range want {
		want[i] = byte(i * i >> 7)
	}
	g := newGatherer()
	go g.fill(bytes.NewReader(want))
	var got, b []byte
	messages := 0
	for over := false; !over; messages++ {
		time.Sleep(time.Millisecond) // a slow sender
		if b, over = g.take(b); len(b) > mostGathered {
			t.Errorf("%d bytes in one message", len(b))
		}
		got = append(got, b...)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%d bytes of %d, or others", len(got), len(want))
	}
	if most := len(want) / (32 << 10); messages > most {
		t.Errorf("%d messages, no fewer than the %d reads", messages, most)
	}
}

// TestGathererLetsGo: a reader whose taker has left does not wait for it.
func TestGathererLetsGo(t *testing.T) {
	g := newGatherer()
	filled := make(chan struct{})
	go func() {
		defer close(filled)
		g.fill(zeros{})
	}()
	g.take(nil)
	g.stop()
	<-filled
}

type zeros struct{}

func (zeros) Read(b []byte) (int, error) { return len(b), nil }

var _ io.Reader = zeros{}
