package seam

import (
	"bytes"
	"strings"
	"testing"
)

func TestK8Cut(t *testing.T) {
	long := numbered(1, 2000) // about 9 KB
	tail := func(b []byte) []byte { return b[max(0, len(b)-4096):] }
	for _, c := range []struct {
		name      string
		delivered int64
		tail, log []byte
		at        int
		lost      int64
	}{
		{"nothing delivered", 0, nil, []byte("abc"), 0, 0},
		{"nothing delivered, nothing there", 0, nil, nil, 0, 0},
		{"all delivered", 3, []byte("abc"), []byte("abc"), 3, 0},
		{"some delivered", 2, []byte("ab"), []byte("abcd"), 2, 0},
		{"repetitive, intact", 4, []byte("xxxx"), []byte("xxxxxx"), 4, 0},
		{"longer than the tail", 8000, tail(long[:8000]), long, 8000, 0},
		{"head rotated away", 8000, tail(long[:8000]), long[2000:], 6000, 0},
		{"rotated into the tail", 8000, tail(long[:8000]), long[6000:], 2000, 0},
		{"rotated past it", 5000, tail(long[:5000]), long[6000:], 0, Unknown},
		{"log lags behind", 8000, tail(long[:8000]), long[:7000], 7000, 0},
		{"log is empty", 8000, tail(long[:8000]), nil, 0, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			at, lost := Cut(c.delivered, c.tail, c.log)
			if at != c.at || lost != c.lost {
				t.Errorf("Cut = %d, %d; want %d, %d", at, lost, c.at, c.lost)
			}
		})
	}
}

func TestK8Skip(t *testing.T) {
	for _, c := range []struct {
		log, live string
		want      int
	}{
		{"", "", 0},
		{"abc", "", 0},
		{"", "the quick brown fox", 0},
		{"a fox", "fox and the hare ran", 0}, // three bytes are chance
		{"said the quick brown fox", "the quick brown fox jumps", 19},
		{"said the quick brown", "the quick brown fox jumps", 0}, // 15 bytes
		{"a the quick brown fox and", "the quick brown fox", 23}, // the log is ahead of the attach
		{"the quick brown fox", "the quick brown fox", 19},
		{"xyxyxyxyxyxyxyxyxyxy", "xyxyxyxyxyxyxyxyxyxyxyxy", 20},
	} {
		if got := Skip([]byte(c.log), []byte(c.live)); got != c.want {
			t.Errorf("Skip(%q, %q) = %d, want %d", c.log, c.live, got, c.want)
		}
	}
}

// A copy that is interrupted anywhere and joined again is the stream, whole.
// Lines are numbered: with output that repeats itself no join can be certain.
func FuzzK8Join(f *testing.F) {
	f.Add(uint16(3), uint16(7), uint16(3), uint16(0), uint16(5))
	f.Add(uint16(3000), uint16(9000), uint16(500), uint16(4000), uint16(900))
	f.Fuzz(func(t *testing.T, lines, delivered, inLog, head, seen uint16) {
		// Of stream, delivered bytes went out before the keeper died. The log
		// holds it from head to where it was read, which is inLog bytes after
		// the new attach; of the live stream, seen bytes have arrived by then.
		stream := numbered(1, int(lines)%5000+1)
		d := int(delivered) % (len(stream) + 1)
		attach := d + (len(stream)-d)/2
		end := attach + int(inLog)%(len(stream)-attach+1)
		h := int(head) % (d + 1)
		log, live := stream[h:end], stream[attach:]
		tail := stream[max(0, d-4096):d]

		at, lost := Cut(int64(d), tail, log)
		if held := d - h; lost != 0 && held >= min(len(tail), minOverlap) && held > 0 {
			t.Fatalf("lost, although the log holds %d delivered bytes", held)
		}
		if lost != 0 || h > 0 && d-h < min(len(tail), minOverlap) {
			return
		}
		skip := Skip(log[at:], live[:int(seen)%(len(live)+1)])
		if int(seen)%(len(live)+1) < minSkip || end-attach < minSkip {
			skip = end - attach // too little to be certain: a few bytes come again
		}
		got := append(append(append([]byte(nil), stream[:d]...), log[at:]...), live[skip:]...)
		if !bytes.Equal(got, stream) {
			t.Fatalf("joined to %d bytes, want %d", len(got), len(stream))
		}
	})
}

func numbered(from, to int) []byte {
	var b strings.Builder
	for i := from; i <= to; i++ {
		b.WriteString("line ")
		b.WriteString(strings.Repeat("0", 5-len(itoa(i))) + itoa(i))
		b.WriteByte('\n')
	}
	return []byte(b.String())
}

func itoa(i int) string {
	var b []byte
	for ; i > 0; i /= 10 {
		b = append([]byte{byte('0' + i%10)}, b...)
	}
	return string(b)
}
