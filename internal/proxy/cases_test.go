package proxy

import (
	"bufio"
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// caseFiles returns every vector file of a kind: those of testdata, and those
// of WARDYN_CASES_DIR when it is set.
func caseFiles(t *testing.T, prefix string) []string {
	t.Helper()
	dirs := []string{"testdata"}
	if d := os.Getenv("WARDYN_CASES_DIR"); d != "" {
		dirs = append(dirs, d)
	}
	var files []string
	for _, d := range dirs {
		found, err := filepath.Glob(filepath.Join(d, prefix+"*.jsonl"))
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, found...)
	}
	if len(files) == 0 {
		t.Fatalf("no %s*.jsonl found", prefix)
	}
	return files
}

// eachCase decodes every line strictly: a field the test does not know fails it.
func eachCase[T any](t *testing.T, prefix string, run func(t *testing.T, c T)) {
	t.Helper()
	seen := map[string]string{}
	for _, file := range caseFiles(t, prefix) {
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		sc := bufio.NewScanner(bytes.NewReader(b))
		sc.Buffer(nil, 4<<20)
		for n := 1; sc.Scan(); n++ {
			line := sc.Bytes()
			var id struct {
				ID string `json:"id"`
			}
			if err := json.Unmarshal(line, &id); err != nil || id.ID == "" {
				t.Errorf("%s:%d: no id: %v", file, n, err)
				continue
			}
			if at, twice := seen[id.ID]; twice && at != file {
				continue // the same vectors lie in both folders
			}
			seen[id.ID] = file
			var c T
			d := json.NewDecoder(bytes.NewReader(line))
			d.DisallowUnknownFields()
			err := d.Decode(&c)
			t.Run(id.ID, func(t *testing.T) {
				if err != nil {
					t.Fatalf("%s:%d: %v", file, n, err)
				}
				run(t, c)
			})
		}
		if err := sc.Err(); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
	}
}

// wireBytes is a byte string of the vectors: each character is one byte, or an
// array of parts.
type wireBytes []byte

func (w *wireBytes) UnmarshalJSON(b []byte) error {
	b = bytes.TrimSpace(b)
	if b[0] == '[' {
		var parts []json.RawMessage
		if err := json.Unmarshal(b, &parts); err != nil {
			return err
		}
		for _, p := range parts {
			var one wireBytes
			if err := one.part(p); err != nil {
				return err
			}
			*w = append(*w, one...)
		}
		return nil
	}
	return w.part(b)
}

func (w *wireBytes) part(b []byte) error {
	if bytes.HasPrefix(bytes.TrimSpace(b), []byte("{")) {
		var rep struct {
			Repeat string `json:"repeat"`
			N      int    `json:"n"`
		}
		d := json.NewDecoder(bytes.NewReader(b))
		d.DisallowUnknownFields()
		if err := d.Decode(&rep); err != nil {
			return err
		}
		*w = latin1(strings.Repeat(rep.Repeat, rep.N))
		return nil
	}
	var s string
	if err := json.Unmarshal(b, &s); err != nil {
		return err
	}
	*w = latin1(s)
	return nil
}

func latin1(s string) []byte {
	out := make([]byte, 0, len(s))
	for _, r := range s {
		out = append(out, byte(r))
	}
	return out
}

// oneOf is a value or a list of values of which any will do.
type oneOf []any

func (o *oneOf) UnmarshalJSON(b []byte) error {
	var v any
	if err := json.Unmarshal(b, &v); err != nil {
		return err
	}
	if list, ok := v.([]any); ok {
		*o = list
	} else {
		*o = oneOf{v}
	}
	return nil
}

// has reports whether the value is among those that will do. Numbers are JSON numbers.
func (o oneOf) has(v any) bool {
	if n, ok := v.(int); ok {
		v = float64(n)
	}
	for _, x := range o {
		if x == v {
			return true
		}
	}
	return false
}
