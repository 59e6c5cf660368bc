package seam

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/iotest"
	"unicode/utf8"
)

// numbered is n lines, each its own.
func numbered(n int) []byte {
	var b bytes.Buffer
	for i := range n {
		fmt.Fprintf(&b, "line %07d of the output\n", i)
	}
	return b.Bytes()
}

func tailOf(p []byte) []byte { return p[max(0, len(p)-4096):] }

// deliver is what a reader gets after stream[:d] when the log holds
// stream[head:end] and the connection brings stream[from:], of which sample
// bytes have come when the log has been read.
func deliver(t *testing.T, stream []byte, d, head, end, from, sample int) ([]byte, Log) {
	t.Helper()
	var spool bytes.Buffer
	l, err := Read(iotest.OneByteReader(bytes.NewReader(stream[head:end])), &spool, Position{int64(d), tailOf(stream[:d])})
	if err != nil {
		t.Fatal(err)
	}
	gap := spool.Bytes()[l.Start:]
	live := stream[from:]
	k := Overlap(gap, live[:min(sample, len(live))], int64(sample))
	return append(bytes.Clone(gap), live[k:]...), l
}

func TestK8SeamOfDistinctLines(t *testing.T) {
	s := numbered(4000)
	const line = 27
	for name, c := range map[string]struct{ d, head, end, from, sample int }{
		"nothing delivered":                  {0, 0, 30000, 20000, 20000},
		"log and connection meet exactly":    {5000, 0, 20000, 20000, 500},
		"connection has brought nothing yet": {5000, 0, 20000, 20000, 0},
		"sample ends within the overlap":     {5000, 0, 60000, 20000, 500},
		"log ends within the sample":         {5000, 0, 20500, 20000, 9000},
		"log ends in a line":                 {5000, 0, 20011, 19995, 9000},
		"delivered within a line":            {5013, 0, 20500, 20000, 9000},
		"cut before a newline":               {line*200 - 1, 0, line * 500, line*400 - 1, 6000},
		"no gap at all":                      {20000, 0, 25000, 20000, 9000},
		"log behind what was delivered":      {20013, 0, 20007, 20013, 9000},
		"log lines behind":                   {20013, 0, 19000, 20013, 9000},
		"delivered less than a tail":         {100, 0, 20000, 10000, 9000},
		"head rotated away":                  {9000, 3000, 60000, 40000, 9000},
		"head rotated away, tail just there": {9000, 9000 - 4096, 60000, 40000, 9000},
	} {
		got, l := deliver(t, s, c.d, c.head, c.end, c.from, c.sample)
		if !l.Found || !bytes.Equal(got, s[c.d:]) {
			t.Errorf("%s: found %v, %d bytes, want %d", name, l.Found, len(got), len(s)-c.d)
		}
	}
}

func TestK8TailRotatedAway(t *testing.T) {
	s := numbered(4000)
	for head, found := range map[int]bool{9000 - 4095: true, 9000 - endMin: true, 9000 - endMin + 1: false, 9000: false, 9500: false} {
		got, l := deliver(t, s, 9000, head, 60000, 40000, 9000)
		want := s[max(head, 9000):]
		if !found {
			want = s[head:] // all there is, after what nobody knows
		}
		if l.Found != found || !bytes.Equal(got, want) {
			t.Errorf("log from %d: %+v, %d bytes, want %d", head, l, len(got), len(want))
		}
	}
}

func TestLongUnfinishedLine(t *testing.T) {
	s := append(numbered(1000), bytes.Repeat([]byte("."), partialMax)...)
	for d, ahead := range map[int]int64{len(s): partialMax, len(s) - 5000: partialMax - 5000} {
		l, err := Read(bytes.NewReader(numbered(1000)), io.Discard, Position{int64(d), tailOf(s[:d])})
		if err != nil || !l.Found || l.Ahead != ahead || l.Start != l.Size {
			t.Errorf("delivered %d: %+v, %v", d, l, err)
		}
	}
	// Longer than any engine leaves out of its log: not the stream's own log.
	s = append(s, '.')
	if l, _ := Read(bytes.NewReader(numbered(1000)), io.Discard, Position{int64(len(s)), tailOf(s)}); l.Found {
		t.Errorf("%+v", l)
	}
}

func TestEmptyLog(t *testing.T) {
	s := numbered(400)
	for d, found := range map[int]bool{0: true, 100: true, 8000: true} {
		l, err := Read(strings.NewReader(""), io.Discard, Position{int64(d), tailOf(s[:d])})
		if err != nil || l.Found != found || l.Start != 0 || l.Ahead != int64(d) {
			t.Errorf("after %d bytes: %+v, %v", d, l, err)
		}
	}
}

func TestUnfinishedLineIsNotLost(t *testing.T) {
	s := append(numbered(400), "login: "...)
	for _, head := range []int{0, 3000} { // intact, and rotated
		l, err := Read(bytes.NewReader(s[head:len(s)-7]), io.Discard, Position{int64(len(s)), tailOf(s)})
		if want := int64(len(s) - 7 - head); err != nil || !l.Found || l.Ahead != 7 || l.Start != want || l.Size != want {
			t.Errorf("head %d: %+v, %v", head, l, err)
		}
	}
}

// TestRepeatedLines: what a stream of equal lines leaves open is decided for
// delivering twice, and by the bound on the overlap.
func TestRepeatedLines(t *testing.T) {
	s := []byte(strings.Repeat("tick\n", 4000))
	for name, c := range map[string]struct{ d, head, end, from, sample, want int }{
		"quiet: nothing received":  {5000, 0, 10000, 10000, 0, 15000},
		"one line in both":         {5000, 0, 10000, 9995, 5, 15000},
		"log intact, many in both": {5000, 0, 10000, 9000, 1000, 15500}, // half of them twice
	} {
		if got, _ := deliver(t, s, c.d, c.head, c.end, c.from, c.sample); len(got) != c.want {
			t.Errorf("%s: %d bytes, want %d", name, len(got), c.want)
		}
	}
	// Printed after the log had been read: not an overlap.
	if k := Overlap(s[:100], s[:5], 0); k != 0 {
		t.Errorf("overlap %d of lines received later, want 0", k)
	}
}

func TestOverlapByContentAlone(t *testing.T) {
	s := numbered(400)
	if k := Overlap(s[:1000], s[500:2000], 0); k != 500 {
		t.Errorf("clear content: %d, want 500", k)
	}
	if k := Overlap([]byte("a\nb\n"), []byte("b\nc\n"), 0); k != 0 {
		t.Errorf("two bytes in common beyond the bound: %d, want 0", k)
	}
	if k := Overlap([]byte("a\nb\n"), []byte("b\nc\n"), 4); k != 2 {
		t.Errorf("two bytes in common within it: %d, want 2", k)
	}
	if k := Overlap(s[:1000], []byte("\n"+string(s[5000:6000])), 1001); k > 1 {
		t.Errorf("nothing in common: %d", k)
	}
}

func TestBytesThatAreNotText(t *testing.T) {
	var b bytes.Buffer
	for i := range 3000 {
		fmt.Fprintf(&b, "äöü\xff%d€\n", i)
	}
	s, inLog := b.Bytes(), func(p []byte) []byte { return bytes.ReplaceAll(p, []byte("\xff"), []byte("\uFFFD")) }
	for d := 9000; d < 9020; d++ { // cuts characters at each of their bytes
		l, err := Read(bytes.NewReader(inLog(s)), io.Discard, Position{int64(d), tailOf(s[:d])})
		want := int64(len(inLog(s[:d])))
		if err != nil || !l.Found || l.Start != want {
			t.Errorf("at %d: %+v, %v, want %d", d, l, err, want)
		}
		// The connection is not replaced: the overlap counts its own bytes.
		for _, end := range []int{d + 500, d + 2000} { // within the sample, and after it
			end += bytes.IndexByte(s[end:], '\n') + 1 // logs are written by the line
			k := Overlap(inLog(s[:end]), s[d:d+1500], 3000)
			// Beyond the sample the log is all there is to count by.
			if want := int64(end - d); end < d+1500 && k != want || k < want {
				t.Errorf("connection from %d to %d: overlap %d, want %d", d, end, k, want)
			}
		}
	}
}

func TestReadErrorsArePassedOn(t *testing.T) {
	if _, err := Read(iotest.ErrReader(io.ErrUnexpectedEOF), io.Discard, Position{}); err != io.ErrUnexpectedEOF {
		t.Errorf("reader: %v", err)
	}
	if _, err := Read(strings.NewReader("x"), failing{}, Position{}); err != io.ErrShortWrite {
		t.Errorf("spool: %v", err)
	}
}

type failing struct{}

func (failing) Write([]byte) (int, error) { return 0, io.ErrShortWrite }

// FuzzSeam: whatever was cut where, a stream of distinct lines comes out whole.
func FuzzSeam(f *testing.F) {
	f.Add(uint64(1), uint16(5000), uint16(0), uint16(500), uint16(1000), uint16(64))
	f.Fuzz(func(t *testing.T, seed uint64, d, head, gap, over, sample uint16) {
		r := rand.New(rand.NewPCG(seed, 1))
		var b bytes.Buffer
		for i := 0; b.Len() < 200000; i++ {
			fmt.Fprintf(&b, "%d %x\n", i, []byte(fmt.Sprint(r.Uint64()))[:r.IntN(15)])
		}
		s := b.Bytes()
		h := min(int(head), max(0, int(d)-4096))
		from := int(d) + int(gap)
		end := from + int(over)
		// A sample too short to be told by its content is what the caller
		// waits out; it knows how much had come.
		got, l := deliver(t, s, int(d), h, end, from, int(sample))
		if int(sample) < int(over) && sample < 2*clearFrom {
			return
		}
		if !l.Found || !bytes.Equal(got, s[d:]) {
			t.Fatalf("found %v, %d bytes, want %d", l.Found, len(got), len(s)-int(d))
		}
	})
}

// FuzzAnything: no input makes it panic, point outside, or disagree with itself.
func FuzzAnything(f *testing.F) {
	f.Add([]byte("*\xd1"), []byte("0"), []byte("ќ"), int64(80), int64(12))
	f.Add([]byte("abab"), []byte("ab"), []byte("abx"), int64(4), int64(2))
	f.Fuzz(func(t *testing.T, log, tail, attach []byte, delivered, received int64) {
		l, err := Read(bytes.NewReader(log), io.Discard, Position{max(delivered, 0), tail})
		if err != nil || l.Start < 0 || l.Start > l.Size || l.Size != int64(len(log)) || l.Ahead < 0 {
			t.Fatalf("%+v, %v", l, err)
		}
		k := Overlap(log, attach, received)
		if k < 0 || k > int64(len(log)+len(attach)) {
			t.Fatalf("overlap %d of %d", k, len(log))
		}
		if !utf8.Valid(attach) {
			return // the log has something else in its place
		}
		n := min(k, int64(len(attach)))
		if at := int64(len(log)) - k; !bytes.Equal(log[at:at+n], attach[:n]) {
			t.Fatalf("overlap %d does not match", k)
		}
	})
}
