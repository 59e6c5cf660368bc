package cast

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/wardyn/nomad-driver-wardyn/internal/taskpath"
)

// Options is what a recording is made with.
type Options struct {
	Dir   string `json:"dir"`  // the folder for people's files
	Name  string `json:"name"` // in the folder, without ".cast"
	Title string `json:"title,omitempty"`
	Of    string `json:"of"`             // OfMain or OfExec
	Made  string `json:"made,omitempty"` // "" is MadeHost
	// Terminal and its first size; 0 is 80 columns and 24 lines.
	Terminal bool `json:"terminal,omitempty"`
	Width    int  `json:"width,omitempty"`
	Height   int  `json:"height,omitempty"`
	// Limit bounds all files together, in bytes; 0 is DefaultLimit.
	Limit int64 `json:"limit,omitempty"`
	// Secrets are values to hide.
	Secrets []string `json:"secrets,omitempty"`

	// Now tells the time; nil is the clock. Who keeps events that were made
	// elsewhere gives their times.
	Now func() time.Time `json:"-"`
}

const (
	// DefaultLimit bounds a recording's files.
	DefaultLimit = 64 << 20
	// LeastLimit is what a bound must be at least, for a part to hold an event.
	LeastLimit = 1 << 20
	// kept parts: the first, the latest and the one before it.
	keptParts = 3
	// streams: the two outputs of a process without a terminal, and input.
	streams = 3
	// input is the stream of what was typed.
	input = 2
)

// Recorder makes one recording. Its methods may be called concurrently, and do
// nothing on nil. An error of theirs says that something was not recorded; they
// may be called again.
type Recorder struct {
	opts Options

	mu     sync.Mutex
	dir    *os.Root
	f      *os.File
	part   int
	size   int64 // of f, whole lines
	start  time.Time
	last   time.Duration // of the latest event of the part
	text   [streams]*Text
	width  int
	height int
	missed int64 // bytes that could not be written
	closed bool
}

// Open begins a recording, or goes on with one that was interrupted, which the
// recording then says.
func Open(o Options) (*Recorder, error) {
	if o.Now == nil {
		o.Now = time.Now
	}
	o.Made = cmp.Or(o.Made, MadeHost)
	if o.Limit == 0 {
		o.Limit = DefaultLimit
	}
	if o.Width == 0 || o.Height == 0 {
		o.Width, o.Height = 80, 24
	}
	dir, err := taskpath.OpenRecords(o.Dir, true)
	if err != nil {
		return nil, fmt.Errorf("recording: %w", err)
	}
	title := NewText(o.Secrets, false)
	o.Title = title.Next([]byte(o.Title)) + title.End()
	r := &Recorder{opts: o, dir: dir, width: o.Width, height: o.Height}
	for i := range r.text {
		r.text[i] = NewText(o.Secrets, !o.Terminal && i != input)
	}
	if err := r.begin(); err != nil {
		r.closeFiles()
		return nil, fmt.Errorf("recording: %w", err)
	}
	return r, nil
}

// begin opens the part to write to.
func (r *Recorder) begin() error {
	parts, err := partsOf(r.dir, r.opts.Name)
	if err != nil {
		return err
	}
	if len(parts) == 0 {
		return r.openPart(1)
	}
	whole, err := r.reopen(parts[len(parts)-1])
	if err != nil || !whole {
		return err
	}
	return r.add(KindMarker, "the recorder was interrupted here")
}

// Output records what one of the two streams brought; 0 is standard output,
// and a terminal's only one.
func (r *Recorder) Output(stream int, b []byte) error {
	if r == nil {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return nil
	}
	return r.keep(stream, r.text[stream].Next(b))
}

// Input records what was typed.
func (r *Recorder) Input(b []byte) error { return r.Output(input, b) }

// keep writes what one of the streams has brought.
func (r *Recorder) keep(stream int, s string) error {
	if s == "" {
		return nil
	}
	if r.missed > 0 {
		if err := r.add(KindMarker, fmt.Sprintf("%d bytes could not be recorded", r.missed)); err != nil {
			r.missed += int64(len(s))
			return err
		}
		r.missed = 0
	}
	kind := KindOutput
	if stream == input {
		kind = KindInput
	}
	if err := r.add(kind, s); err != nil {
		r.missed += int64(len(s))
		return err
	}
	return nil
}

// Resize records a new size of the terminal.
func (r *Recorder) Resize(width, height int) error {
	if r == nil || width <= 0 || height <= 0 {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed || width == r.width && height == r.height {
		return nil
	}
	r.width, r.height = width, height
	return r.add(KindResize, size(width, height))
}

// Mark records something to be known at this place, such as a loss; secrets in
// it are hidden.
func (r *Recorder) Mark(what string) error {
	if r == nil {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return nil
	}
	shown := NewText(r.opts.Secrets, false)
	return errors.Join(r.rest(), r.add(KindMarker, shown.Next([]byte(what))+shown.End()))
}

// Hide hides more secrets from now on.
func (r *Recorder) Hide(secrets ...string) {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.opts.Secrets = slices.Compact(slices.Sorted(slices.Values(slices.Concat(r.opts.Secrets, secrets))))
	for _, t := range r.text {
		t.secrets.Hide(secrets...)
	}
}

// rest writes what the streams hold back.
func (r *Recorder) rest() error {
	var errs []error
	for i, t := range r.text {
		errs = append(errs, r.keep(i, t.End()))
	}
	return errors.Join(errs...)
}

// Close ends the recording; how says how what was recorded ended, "" that it
// is not known here.
func (r *Recorder) Close(how string) error {
	if r == nil {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return nil
	}
	r.closed = true
	err := r.rest()
	if how != "" {
		err = errors.Join(err, r.add(KindMarker, how))
	}
	return errors.Join(err, r.closeFiles())
}

// add writes an event, in a new part when the current one is full.
func (r *Recorder) add(kind, data string) error {
	line := Event{At: r.elapsed(), Kind: kind, Data: data}.Line()
	if r.size+int64(len(line)) > r.opts.Limit/keptParts {
		if err := r.turn(); err != nil {
			return fmt.Errorf("recording: %w", err)
		}
		line = Event{At: r.elapsed(), Kind: kind, Data: data}.Line()
	}
	if err := r.write(line); err != nil {
		return fmt.Errorf("recording: %w", err)
	}
	return nil
}

// elapsed never goes back, whatever the clock does.
func (r *Recorder) elapsed() time.Duration {
	r.last = max(r.last, r.opts.Now().Sub(r.start))
	return r.last
}
