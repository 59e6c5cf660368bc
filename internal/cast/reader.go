package cast

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"
)

// ErrNoCast: it is no asciicast of version 2.
var ErrNoCast = errors.New("it is no asciicast v2")

// longest bounds a line that is read.
const longest = 1 << 20

// Read reads a recording and gives each event to visit. Lines that are no
// events are passed over, as is one that was being written when the recorder
// died.
func Read(r io.Reader, visit func(Event) error) (Header, error) {
	h, _, err := read(r, visit)
	return h, err
}

// read is Read, and says where the last whole line ends.
func read(r io.Reader, visit func(Event) error) (h Header, end int64, err error) {
	end, err = ReadBegun(r, func(first Header) error {
		h = first
		return nil
	}, visit)
	return h, end, err
}

func readHeader(in *bufio.Reader) (h Header, size int64, err error) {
	head, err := wholeLine(in)
	if err != nil && err != io.EOF {
		return Header{}, 0, err
	}
	if err == io.EOF || json.Unmarshal(head.text, &h) != nil || h.Version != 2 {
		return Header{}, 0, ErrNoCast
	}
	return h, head.size, nil
}

// ReadMore reads more events of a recording, the first line of which was read
// before. It says where the last whole line ends.
func ReadMore(r io.Reader, visit func(Event) error) (end int64, err error) {
	return readEvents(bufio.NewReaderSize(r, 64<<10), visit)
}

func readEvents(in *bufio.Reader, visit func(Event) error) (end int64, err error) {
	for {
		l, err := wholeLine(in)
		if err == io.EOF {
			return end, nil
		}
		if err != nil {
			return end, err
		}
		end += l.size
		var e Event
		if json.Unmarshal(l.text, &e) != nil {
			continue
		}
		if err := visit(e); err != nil {
			return end, err
		}
	}
}

// ReadBegun is Read for who has to know the first line before the events come.
// It says where the last whole line ends.
func ReadBegun(r io.Reader, begin func(Header) error, visit func(Event) error) (end int64, err error) {
	in := bufio.NewReaderSize(r, 64<<10)
	h, end, err := readHeader(in)
	if err == nil {
		err = begin(h)
	}
	if err != nil {
		return 0, err
	}
	more, err := readEvents(in, visit)
	return end + more, err
}

type line struct {
	text []byte // nil when it is too long
	size int64
}

// wholeLine reads up to a line's end; a line without one is io.EOF.
func wholeLine(in *bufio.Reader) (l line, err error) {
	for {
		part, err := in.ReadSlice('\n')
		l.size += int64(len(part))
		if l.size <= longest {
			l.text = append(l.text, part...)
		} else {
			l.text = nil
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return l, err
		}
	}
}

// began is when the recording's clock stood at zero.
func (h Header) began() time.Time {
	if !h.Source.Start.IsZero() {
		return h.Source.Start
	}
	return time.Unix(h.Timestamp, 0)
}

// Play writes a recording's output to w as it came, no pause being longer than
// idle; sleep waits.
func Play(w io.Writer, r io.Reader, idle time.Duration, sleep func(time.Duration)) error {
	var at time.Duration
	_, err := Read(r, func(e Event) error {
		if pause := min(e.At-at, idle); pause > 0 {
			sleep(pause)
		}
		at = max(at, e.At)
		if e.Kind != KindOutput {
			return nil
		}
		_, err := io.WriteString(w, e.Data)
		return err
	})
	if err != nil {
		return fmt.Errorf("recording: %w", err)
	}
	return nil
}
