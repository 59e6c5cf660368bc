package control

import (
	"fmt"
	"slices"

	"github.com/wardyn/nomad-driver-wardyn/runner/egress"
)

// batch is how many records a sidecar may send in one request.
const batch = 16

// recent are the keys of the latest records kept. A sidecar delivers in order
// and sends a request again whose answer it did not get, so a record that
// comes twice is among the last few requests' worth.
type recent struct{ keys []string }

func (r *recent) has(key string) bool { return slices.Contains(r.keys, key) }

func (r *recent) add(key string) {
	if len(r.keys) == 4*batch {
		r.keys = slices.Delete(r.keys, 0, 1)
	}
	r.keys = append(r.keys, key)
}

// keyOf tells one record from every other. The number alone would not do: each
// sidecar counts from 1.
func keyOf(l egress.DecisionLog) string {
	f := l.Flow
	if f == nil {
		f = &egress.FlowDetail{}
	}
	return fmt.Sprintf("%d %s %s %d", f.Seq, f.FlowID, f.Kind, l.Request.Time.UnixNano())
}
