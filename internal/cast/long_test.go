package cast

import (
	"bytes"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"testing"
)

// longMB is how much output TestK36LongOutput records.
func longMB(t *testing.T) int {
	text := os.Getenv("WARDYN_TEST_RECORD_MB")
	if text == "" {
		return 48
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// However much a program prints, a recording takes no more memory, no more of
// the disk than its bound, and has what was printed first and last.
// WARDYN_TEST_RECORD_MB=1024 records a gibibyte.
func TestK36LongOutput(t *testing.T) {
	c := newClock()
	o := options(t, c)
	o.Limit = 8 << 20
	o.Secrets = []string{"planted-secret-1"}
	r := open(t, o)
	chunk := bytes.Repeat([]byte("0123456789abcde\n"), 1<<10)
	total := longMB(t) << 20
	var before, after runtime.MemStats
	must(t, r.Output(0, []byte("the beginning\n")))
	for n := 0; n < total; n += len(chunk) {
		if n == total/4/len(chunk)*len(chunk) { // warm by now
			runtime.GC()
			runtime.ReadMemStats(&before)
		}
		must(t, r.Output(0, chunk))
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	must(t, r.Output(0, []byte("the end\n")), r.Close("exit 0"))
	if grown := int64(after.HeapAlloc) - int64(before.HeapAlloc); grown > 1<<20 {
		t.Errorf("memory grew by %d bytes over %d of output", grown, total)
	}
	list, err := List(o.Dir, "run")
	must(t, err)
	if len(list) != 1 || list[0].Bytes > o.Limit || list[0].End != "exit 0" {
		t.Fatalf("%+v", list)
	}
	_, first := content(t, o, 1)
	parts := list[0].Parts
	_, last := content(t, o, parts[len(parts)-1])
	if !strings.Contains(first[0], "the beginning") || !strings.Contains(fmt.Sprint(last[len(last)-2:]), "the end") {
		t.Errorf("%.60q ... %.60q", first[0], last[len(last)-2:])
	}
}
