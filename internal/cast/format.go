package cast

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/wardyn/nomad-driver-wardyn/internal/clean"
)

// What a recording is of.
const (
	OfMain = "main" // the task's main process
	OfExec = "exec" // one command in the task
)

// Who made a recording.
const (
	MadeHost    = "host"    // the driver, outside of the sandbox
	MadeSandbox = "sandbox" // a recorder inside: the sandbox's own word
)

// Header is a recording's first line.
type Header struct {
	Version   int    `json:"version"` // 2
	Width     int    `json:"width"`
	Height    int    `json:"height"`
	Timestamp int64  `json:"timestamp"` // of the first event, Unix seconds
	Title     string `json:"title,omitempty"`
	Source    Source `json:"wardyn"`
}

// Source says where a recording comes from. Players pass it over.
type Source struct {
	Of   string `json:"of"`   // OfMain or OfExec
	Made string `json:"made"` // MadeHost or MadeSandbox
	// Terminal: it was one. Otherwise both outputs were pipes, whose line ends
	// are recorded as a terminal shows them.
	Terminal bool      `json:"terminal"`
	Start    time.Time `json:"start"`
	Part     int       `json:"part"` // of one recording, from 1
}

// Kinds of events.
const (
	KindOutput = "o"
	KindInput  = "i" // what was typed; only recorders inside a sandbox note it
	KindResize = "r"
	KindMarker = "m"
)

// Event is one line after the first.
type Event struct {
	At   time.Duration // since the start
	Kind string
	// Data is output or input; a size as "80x24"; or what a marker says.
	Data string
}

// Line is an event as it stands in a file. Nothing in it acts on a terminal
// that shows the file itself.
func (e Event) Line() []byte {
	data, _ := json.Marshal(e.Data) // strings always marshal
	return append(fmt.Appendf(nil, "[%.6f,%q,%s]", e.At.Seconds(), e.Kind, clean.Visible(data)), '\n')
}

// Line is a header as it stands in a file.
func (h Header) Line() []byte {
	b, _ := json.Marshal(h) // always marshals
	return append(clean.Visible(b), '\n')
}

// UnmarshalJSON reads an event as any recorder writes it.
func (e *Event) UnmarshalJSON(b []byte) error {
	var at float64
	parts := []any{&at, &e.Kind, &e.Data}
	if err := json.Unmarshal(b, &parts); err != nil {
		return err
	}
	if len(parts) != 3 || at < 0 || at > maxLength.Seconds() {
		return fmt.Errorf("%.40q is no event", b)
	}
	e.At = time.Duration(at * float64(time.Second))
	return nil
}

// maxLength is longer than any recording.
const maxLength = 100 * 365 * 24 * time.Hour

func size(width, height int) string { return fmt.Sprintf("%dx%d", width, height) }
