package docker

import (
	"testing"
	"time"
)

// R63, C6: what is registered is really run, and its verdict is kept.
func TestR63ProbeRunsEachClass(t *testing.T) {
	w := newWorld(t)
	began := time.Now()
	f := w.Probe(t.Context())
	t.Logf("%v: %+v", time.Since(began), f)
	began = time.Now()
	f = w.Probe(t.Context())
	t.Logf("%v: %+v", time.Since(began), f)
}
