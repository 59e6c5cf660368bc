package cast

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/wardyn/nomad-driver-wardyn/internal/taskpath"
)

// Recording is one that lies in a folder.
type Recording struct {
	Name   string        `json:"name"`
	Title  string        `json:"title,omitempty"`
	Of     string        `json:"of"`
	Made   string        `json:"made"` // MadeSandbox is the sandbox's own word
	Start  time.Time     `json:"start"`
	Length time.Duration `json:"-"`
	Bytes  int64         `json:"bytes"`
	// Parts are its files, by number; those that are missing were dropped.
	Parts []int `json:"parts"`
	// End says how it ended; "" while it has not, or when the recorder died.
	End string `json:"end,omitempty"`
}

// List lists the recordings in a folder whose names begin with prefix, the
// oldest first. A folder that is not there has none.
func List(dir, prefix string) ([]Recording, error) {
	root, err := taskpath.OpenRecords(dir, false)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer root.Close()
	list, err := files(root)
	if err != nil {
		return nil, err
	}
	parts := map[string][]int{}
	for _, f := range list {
		if name, part, ok := splitName(f); ok && strings.HasPrefix(name, prefix) {
			parts[name] = append(parts[name], part)
		}
	}
	var out []Recording
	for name, p := range parts {
		slices.Sort(p)
		r, err := look(root, name, p)
		if err != nil && !errors.Is(err, ErrNoCast) {
			return nil, fmt.Errorf("recording %s: %w", name, err)
		}
		out = append(out, r)
	}
	slices.SortFunc(out, func(a, b Recording) int {
		if c := a.Start.Compare(b.Start); c != 0 {
			return c
		}
		return strings.Compare(a.Name, b.Name)
	})
	return out, nil
}

// look reads the first part's header and the last part.
func look(root *os.Root, name string, parts []int) (Recording, error) {
	out := Recording{Name: name, Parts: parts}
	for i, part := range parts {
		f, err := taskpath.OpenRecord(root, partName(name, part), os.O_RDONLY)
		if errors.Is(err, fs.ErrNotExist) {
			continue // dropped meanwhile
		}
		if err != nil {
			return out, err
		}
		err = out.add(f, i == 0, i == len(parts)-1)
		f.Close()
		if err != nil {
			return out, err
		}
	}
	return out, nil
}

func (r *Recording) add(f *os.File, first, last bool) error {
	fi, err := f.Stat()
	if err != nil {
		return err
	}
	r.Bytes += fi.Size()
	if !first && !last {
		return nil
	}
	if !last { // its head is enough
		h, err := Read(f, func(Event) error { return errStop })
		if err != nil && !errors.Is(err, errStop) {
			return err
		}
		r.take(h)
		return nil
	}
	var at time.Duration
	h, err := Read(f, func(e Event) error {
		at, r.End = max(at, e.At), ""
		if e.Kind == KindMarker && strings.HasPrefix(e.Data, Exit) {
			r.End = e.Data
		}
		return nil
	})
	if err != nil {
		return err
	}
	if first {
		r.take(h)
	}
	r.Length = h.began().Add(at).Sub(r.Start)
	return nil
}

// take tells of a recording what its first header says.
func (r *Recording) take(h Header) {
	r.Title, r.Of, r.Made, r.Start = h.Title, h.Source.Of, h.Source.Made, h.began()
}

var errStop = errors.New("enough was read")

// Exit begins the marker that says how what was recorded ended.
const Exit = "exit "

// OpenParts gives the files of a recording, in order, to use. Each begins with
// a header.
func OpenParts(dir, name string, use func(part int, r io.Reader) error) error {
	root, err := taskpath.OpenRecords(dir, false)
	if err != nil {
		return err
	}
	defer root.Close()
	parts, err := partsOf(root, name)
	if err != nil {
		return err
	}
	if len(parts) == 0 {
		return fmt.Errorf("there is no recording %q: %w", name, fs.ErrNotExist)
	}
	for _, part := range parts {
		f, err := taskpath.OpenRecord(root, partName(name, part), os.O_RDONLY)
		if errors.Is(err, fs.ErrNotExist) {
			continue // dropped meanwhile
		}
		if err != nil {
			return err
		}
		err = use(part, f)
		f.Close()
		if err != nil {
			return err
		}
	}
	return nil
}

// Room is how large a further recording may become, in bytes, where one may have
// limit and all whose names begin with prefix may have most together; 0 is that
// there is no room for another.
func Room(dir, prefix string, limit, most int64) (int64, error) {
	taken, err := Size(dir, prefix)
	if err != nil {
		return 0, err
	}
	room := min(cmp.Or(limit, DefaultLimit), most-taken)
	if room < LeastLimit {
		return 0, nil
	}
	return room, nil
}

// Size is how much the recordings whose names begin with prefix take, in bytes.
func Size(dir, prefix string) (sum int64, err error) {
	sizes, err := Sizes(dir, prefix)
	for _, n := range sizes {
		sum += n
	}
	return sum, err
}

// Sizes is how much each of them takes, by its name.
func Sizes(dir, prefix string) (map[string]int64, error) {
	root, err := taskpath.OpenRecords(dir, false)
	sizes := map[string]int64{}
	if errors.Is(err, fs.ErrNotExist) {
		return sizes, nil
	}
	if err != nil {
		return nil, err
	}
	defer root.Close()
	list, err := files(root)
	if err != nil {
		return nil, err
	}
	for _, f := range list {
		name, _, ok := splitName(f)
		if !ok || !strings.HasPrefix(name, prefix) {
			continue
		}
		fi, err := root.Lstat(f)
		if errors.Is(err, fs.ErrNotExist) {
			continue // dropped meanwhile
		}
		if err != nil {
			return nil, err
		}
		sizes[name] += fi.Size()
	}
	return sizes, nil
}
