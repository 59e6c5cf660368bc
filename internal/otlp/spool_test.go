package otlp

import (
	"bytes"
	"testing"
)

// E121: a record that no batch holds is missed, and those behind it go on.
func TestE121LineLongerThanABatch(t *testing.T) {
	s, err := openSpool(t.TempDir(), 64<<20)
	if err != nil {
		t.Fatal(err)
	}
	defer s.close()
	for _, line := range [][]byte{bytes.Repeat([]byte("x"), maxBatchBytes), bytes.Repeat([]byte("y"), maxBatchBytes-1-len(owner{}.line(nil))), []byte("z")} {
		if err := s.put(owner{}, line); err != nil {
			t.Fatal(err)
		}
	}
	var got []byte
	missed := uint64(0)
	for range 3 {
		b, err := s.next(maxBatch)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range b.entries {
			got = append(got, e.record[0])
		}
		for _, g := range b.gaps {
			missed += g.n
		}
		if err := s.done(b); err != nil {
			t.Fatal(err)
		}
	}
	if string(got) != "yz" || missed != 1 || s.waiting() != 0 {
		t.Errorf("the records %q came, %d are missing, %d bytes wait", got, missed, s.waiting())
	}
}
