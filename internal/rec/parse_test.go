package rec

import (
	"slices"
	"syscall"
	"testing"
)

func TestParseExec(t *testing.T) {
	a, err := parseExec([]string{"-rows", "24", "-cols", "80", "id", "--", "sh", "-c", "--", "-cols"})
	if err != nil || a.id != "id" || a.cols != 80 || a.rows != 24 || !slices.Equal(a.argv, []string{"sh", "-c", "--", "-cols"}) {
		t.Errorf("%+v, %v", a, err)
	}
}

func TestIsExecOf(t *testing.T) {
	for _, c := range []struct {
		argv []string
		want bool
	}{
		{[]string{"/.wardyn/wardyn-rec", "exec", "id", "--", "sh"}, true},
		{[]string{"/.wardyn/wardyn-rec", "exec", "-cols", "1", "-rows", "1", "id", "--", "sh"}, true},
		{[]string{"/.wardyn/wardyn-rec", "exec", "id2", "--", "sh"}, false},
		{[]string{"/.wardyn/wardyn-rec", "exec", "other", "--", "wardyn-rec", "exec", "id", "--", "sh"}, false},
		{[]string{"/.wardyn/wardyn-rec", "kill", "id"}, false},
		{[]string{"sh", "exec", "id", "--", "sh"}, false},
		{[]string{""}, false},
	} {
		if got := isExecOf(c.argv, "id"); got != c.want {
			t.Errorf("%q: %v", c.argv, got)
		}
	}
}

func TestParseSignal(t *testing.T) {
	for s, want := range map[string]syscall.Signal{"TERM": 15, "SIGTERM": 15, "sigusr1": 10, "9": 9, "64": 64, "65": 0, "0": 0, "": 0, "NOPE": 0} {
		if got, err := parseSignal(s); got != want || (err == nil) != (want != 0) {
			t.Errorf("%q: %d, %v", s, got, err)
		}
	}
}

func FuzzParseStat(f *testing.F) {
	f.Add([]byte("17 (a) b (c) S 4 5 6 0 -1"))
	f.Add([]byte("17 (x"))
	f.Fuzz(func(t *testing.T, line []byte) { parseStat(1, line) })
}

func TestParseStat(t *testing.T) {
	p, err := parseStat(17, []byte("17 (a) S 1 2 (c)) T 4 5 6 0 -1"))
	if err != nil || p != (process{17, 4, 5, 'T'}) {
		t.Errorf("%+v, %v", p, err)
	}
}
