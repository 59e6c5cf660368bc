package keeper

import (
	"bytes"
	"encoding/binary"
	"io"
	"testing"
	"testing/iotest"
)

func frame(s stream, text string) []byte {
	b := binary.BigEndian.AppendUint32([]byte{byte(s + 1), 0, 0, 0}, uint32(len(text)))
	return append(b, text...)
}

// taken is what pump delivers of raw.
func taken(raw io.Reader, framed bool) (out [streams]string, pieces int, err error) {
	err = pump(raw, framed, func(s stream, b []byte) error {
		out[s] += string(b)
		pieces++
		return nil
	})
	return out, pieces, err
}

func TestPumpTakesFramesApart(t *testing.T) {
	large := string(bytes.Repeat([]byte("x"), 3*chunkSize))
	raw := bytes.Join([][]byte{frame(stdout, "a\n"), frame(stdout, "b\n"), frame(stderr, ""), frame(stderr, "c\n"), frame(stdout, large)}, nil)
	want := [streams]string{"a\nb\n" + large, "c\n"}
	for name, r := range map[string]io.Reader{"at once": bytes.NewReader(raw), "by the byte": iotest.OneByteReader(bytes.NewReader(raw))} {
		if got, _, err := taken(r, true); err != nil || got != want {
			t.Errorf("%s: %v, %d and %d bytes", name, err, len(got[stdout]), len(got[stderr]))
		}
	}
	if _, n, _ := taken(bytes.NewReader(raw), true); n > 7 {
		t.Errorf("%d pieces: frames of one stream are to go together", n)
	}
	for cut := 1; cut < 10; cut++ {
		if _, _, err := taken(bytes.NewReader(raw[:cut]), true); err != io.ErrUnexpectedEOF {
			t.Errorf("cut after %d bytes: %v", cut, err)
			break
		}
	}
	for _, head := range []string{"\x00\x00\x00\x00\x00\x00\x00\x01x", "\x03\x00\x00\x00\x00\x00\x00\x01x", "\x01\x00\x01\x00\x00\x00\x00\x01x"} {
		if got, _, err := taken(io.MultiReader(bytes.NewReader(frame(stderr, "before")), bytes.NewReader([]byte(head))), true); err == nil || got[stderr] != "before" {
			t.Errorf("head % x: %v, %q", head[:8], err, got)
		}
	}
	if got, _, err := taken(bytes.NewReader(raw[:10]), false); err != nil || got[stdout] != string(raw[:10]) {
		t.Errorf("unframed: %v, %q", err, got)
	}
}

// FuzzPump: however reads are cut, both streams come out whole and in order.
func FuzzPump(f *testing.F) {
	f.Add([]byte("\x05\x83\x00\x90"), uint8(3))
	f.Fuzz(func(t *testing.T, plan []byte, step uint8) {
		var raw []byte
		var want [streams]string
		for i, c := range plan { // a stream and a length each
			text := string(bytes.Repeat([]byte{byte('a' + i%26)}, int(c&0x7f)*37))
			s := stream(c >> 7)
			raw, want[s] = append(raw, frame(s, text)...), want[s]+text
		}
		got, _, err := taken(stepReader{bytes.NewReader(raw), int(step) + 1}, true)
		if err != nil || got != want {
			t.Fatalf("%v: %d and %d bytes, want %d and %d", err, len(got[0]), len(got[1]), len(want[0]), len(want[1]))
		}
	})
}

// stepReader reads at most n bytes at a time.
type stepReader struct {
	r io.Reader
	n int
}

func (s stepReader) Read(p []byte) (int, error) { return s.r.Read(p[:min(s.n, len(p))]) }
