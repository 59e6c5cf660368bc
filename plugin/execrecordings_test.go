package plugin

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/wardyn/nomad-driver-wardyn/internal/cast"
)

// K36: commands that begin at one moment do not outgrow the bound of a run's
// recordings together, and what one has not taken is the next one's.
func TestK36ExecRecordingsAtOnceKeepTheirBound(t *testing.T) {
	for _, limit := range []int64{cast.LeastLimit, 4 * cast.LeastLimit} {
		var r recorders
		o := cast.Options{Dir: filepath.Join(t.TempDir(), "wardyn"), Name: "run" + execMark, Of: cast.OfExec, Limit: limit}
		most := execRecordings * limit
		var all sync.WaitGroup
		open := make(chan *cast.Recorder, 40)
		for range cap(open) {
			all.Go(func() {
				x, err := r.open(o)
				if err != nil {
					return // there is no room for all of them
				}
				open <- x
				line := bytes.Repeat([]byte("x"), 32<<10)
				for n := int64(0); n < 2*limit; n += int64(len(line)) {
					if err := x.Output(0, line); err != nil {
						t.Error(err)
					}
				}
			})
		}
		all.Wait()
		close(open)
		begun := len(open)
		taken, err := cast.Size(o.Dir, o.Name)
		if err != nil || taken > most || begun < execRecordings {
			t.Errorf("%d recordings take %d bytes of %d, %v", begun, taken, most, err)
		}
		if _, err := r.open(o); err == nil {
			t.Error("one more is begun without room")
		}
		for x := range open {
			if err := x.Close("exit 0"); err != nil {
				t.Error(err)
			}
			r.ended(x)
		}
		if taken, err := r.taken(o.Dir, o.Name); err != nil || taken > most {
			t.Errorf("afterwards they take %d bytes of %d, %v", taken, most, err)
		}
	}
}

// A secret that is read anew while a recording begins is hidden in it, although
// whoever begins it had asked for the secrets before.
func TestI3K36ExecRecordingHidesWhatWasReadMeanwhile(t *testing.T) {
	const secret = "renewed-secret-0123456789"
	var r recorders
	o := cast.Options{Dir: filepath.Join(t.TempDir(), "wardyn"), Name: "run" + execMark, Of: cast.OfExec, Secrets: []string{"an-older-secret"}}
	r.hide(secret)
	x, err := r.open(o)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(x.Output(0, []byte("it is "+secret+"\n")), x.Close("exit 0")); err != nil {
		t.Fatal(err)
	}
	files, _ := filepath.Glob(filepath.Join(o.Dir, o.Name+"*"))
	if len(files) == 0 {
		t.Fatal("nothing was recorded")
	}
	for _, file := range files {
		if b, err := os.ReadFile(file); err != nil || !bytes.Contains(b, []byte("it is ")) || bytes.Contains(b, []byte(secret)) {
			t.Errorf("%s, %v", b, err)
		}
	}
}

// What is left is shared, so that many terminals at once are all recorded.
func TestK36ShareOfARecording(t *testing.T) {
	const mib = 1 << 20
	for _, c := range []struct{ left, limit, want int64 }{
		{256, 64, 64}, {128, 64, 64}, {127, 64, 63}, {3, 1, 1}, {2, 64, 1}, {1, 64, 1}, {0, 64, 0}, {-5, 64, 0},
	} {
		if got := share(c.left*mib, c.limit*mib) / mib; got != c.want {
			t.Errorf("%d MiB left, %d MiB at most: %d, want %d", c.left, c.limit, got, c.want)
		}
	}
}
