package plugin

import (
	"cmp"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/wardyn/nomad-driver-wardyn/internal/cast"
)

const (
	// execRecordings bounds what the recordings of a run's commands take
	// together, in recordings of full size.
	execRecordings = 4
	// execMark stands between a run and the rest in the names of those.
	execMark = ".exec-"
)

// recorders are the recordings of a run's commands that are being made. What one
// may take is promised to it when it begins, so that those begun at one moment
// do not outgrow their room together.
type recorders struct {
	mu     sync.Mutex // also held while one is opened: each sees what the others may take
	list   []promised
	hidden []string // secrets that were read anew, for those that begin later
}

// promised is a recorder and what it may take, in bytes.
type promised struct {
	*cast.Recorder
	name  string
	bytes int64
}

// open begins a recording under o.Name and more that makes it unique. o.Limit
// bounds it, 0 being the default, and a multiple of that all of the run's.
func (r *recorders) open(o cast.Options) (*cast.Recorder, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	limit := cmp.Or(o.Limit, cast.DefaultLimit)
	most := execRecordings * limit
	taken, err := r.taken(o.Dir, o.Name)
	if err != nil {
		return nil, err
	}
	if o.Limit = share(most-taken, limit); o.Limit == 0 {
		return nil, fmt.Errorf("the recordings of this run's commands take %d MiB already, or may yet", most>>20)
	}
	o.Name += time.Now().UTC().Format("20060102T150405Z-") + uuid.NewString()[:8]
	o.Secrets = slices.Concat(o.Secrets, r.hidden)
	rec, err := cast.Open(o)
	if err != nil {
		return nil, err
	}
	r.list = append(r.list, promised{rec, o.Name, o.Limit})
	return rec, nil
}

// taken is what the recordings whose names begin with prefix take, those that
// are being made as if they had all that was promised to them: what they have
// changes as one looks.
func (r *recorders) taken(dir, prefix string) (sum int64, err error) {
	sizes, err := cast.Sizes(dir, prefix)
	if err != nil {
		return 0, err
	}
	for _, p := range r.list {
		sizes[p.name] = p.bytes
	}
	for _, n := range sizes {
		sum += n
	}
	return sum, nil
}

// share is what one more recording may take of what is left, in bytes: up to
// limit, and no more than half where others then get something as well. 0 is
// that too little is left.
func share(left, limit int64) int64 {
	if left < cast.LeastLimit {
		return 0
	}
	return min(limit, max(left/2, cast.LeastLimit))
}

// ended gives back what a recording has not taken.
func (r *recorders) ended(x *cast.Recorder) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.list = slices.DeleteFunc(r.list, func(p promised) bool { return p.Recorder == x })
}

// hide hides a secret from now on, also in those that begin later: who begins
// one may have asked for the secrets before this one was known.
func (r *recorders) hide(secret string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !slices.Contains(r.hidden, secret) {
		r.hidden = append(r.hidden, secret)
	}
	for _, x := range r.list {
		x.Hide(secret)
	}
}

// secrets are what hide was told, in the order of that.
func (r *recorders) secrets() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.hidden)
}
