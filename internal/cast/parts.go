package cast

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/wardyn/nomad-driver-wardyn/internal/taskpath"
)

// Suffix is what the names of recordings' files end in.
const Suffix = ".cast"

// partName is the file of a part: NAME.cast, then NAME.2.cast and so on.
func partName(name string, part int) string {
	if part == 1 {
		return name + Suffix
	}
	return name + "." + strconv.Itoa(part) + Suffix
}

// splitName is the recording and the part that a file is of.
func splitName(file string) (name string, part int, ok bool) {
	base, ok := strings.CutSuffix(file, Suffix)
	if !ok || base == "" {
		return "", 0, false
	}
	if i := strings.LastIndexByte(base, '.'); i > 0 {
		if n, err := strconv.Atoi(base[i+1:]); err == nil && n > 1 && base[i+1:] == strconv.Itoa(n) {
			return base[:i], n, true
		}
	}
	return base, 1, true
}

// files are the names in a folder.
func files(dir *os.Root) ([]string, error) {
	entries, err := fs.ReadDir(dir.FS(), ".")
	if err != nil {
		return nil, err
	}
	var out []string
	for _, e := range entries {
		out = append(out, e.Name())
	}
	return out, nil
}

// partsOf are the numbers of a recording's parts, in order.
func partsOf(dir *os.Root, name string) ([]int, error) {
	list, err := files(dir)
	if err != nil {
		return nil, err
	}
	var parts []int
	for _, f := range list {
		if n, part, ok := splitName(f); ok && n == name {
			parts = append(parts, part)
		}
	}
	slices.Sort(parts)
	return parts, nil
}

// openPart begins a part and goes on in it. One that does not get its first line
// is none, and is not there: events without one could not be read.
func (r *Recorder) openPart(part int) error {
	name, start := partName(r.opts.Name, part), r.opts.Now().UTC()
	f, err := taskpath.OpenRecord(r.dir, name, os.O_RDWR|os.O_CREATE|os.O_TRUNC)
	if err != nil {
		return err
	}
	head := Header{
		Version: 2, Width: r.width, Height: r.height, Timestamp: start.Unix(), Title: r.opts.Title,
		Source: Source{Of: r.opts.Of, Made: r.opts.Made, Terminal: r.opts.Terminal, Start: start, Part: part},
	}.Line()
	if _, err := f.Write(head); err != nil {
		return errors.Join(err, f.Close(), r.dir.Remove(name))
	}
	if r.f != nil {
		// Last words of the part before: without them it plays all the same.
		_ = r.write(Event{At: r.last, Kind: KindMarker, Data: "continued in " + name}.Line())
		r.f.Close()
	}
	r.f, r.part, r.size, r.start, r.last = f, part, int64(len(head)), start, 0
	return nil
}

// reopen goes on with a part, behind its last whole line. One without a whole
// header is begun anew, which whole denies.
func (r *Recorder) reopen(part int) (whole bool, err error) {
	f, err := taskpath.OpenRecord(r.dir, partName(r.opts.Name, part), os.O_RDWR)
	if err != nil {
		return false, err
	}
	h, end, err := read(f, func(e Event) error {
		r.last = max(r.last, e.At)
		var w, h int
		if _, err := fmt.Sscanf(e.Data, "%dx%d", &w, &h); e.Kind == KindResize && err == nil {
			r.width, r.height = w, h
		}
		return nil
	})
	if err != nil {
		f.Close()
		if errors.Is(err, ErrNoCast) {
			return false, r.openPart(part)
		}
		return false, err
	}
	r.f, r.part, r.size, r.start = f, part, end, h.began()
	return true, r.seekEnd()
}

// turn goes on in a new part, and drops the oldest but the first when there are
// too many.
func (r *Recorder) turn() error {
	if err := r.openPart(r.part + 1); err != nil {
		return err
	}
	old := r.part - keptParts + 1
	if old <= 1 {
		return nil
	}
	if err := r.drop(old); err != nil {
		return err
	}
	return r.write(Event{Kind: KindMarker, Data: dropped(old)}.Line())
}

// drop removes the parts up to last, but for the first: also those that a
// recorder had still to remove when it died.
func (r *Recorder) drop(last int) error {
	parts, err := partsOf(r.dir, r.opts.Name)
	if err != nil {
		return err
	}
	for _, part := range parts {
		if part <= 1 || part > last {
			continue
		}
		if err := r.dir.Remove(partName(r.opts.Name, part)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

func dropped(last int) string {
	return fmt.Sprintf("the recording is longer than its bound: parts 2 to %d are missing", last)
}

// write appends whole lines or nothing.
func (r *Recorder) write(b []byte) error {
	if _, err := r.f.Write(b); err != nil {
		return errors.Join(err, r.seekEnd())
	}
	r.size += int64(len(b))
	return nil
}

// seekEnd cuts the part behind its last whole line.
func (r *Recorder) seekEnd() error {
	if err := r.f.Truncate(r.size); err != nil {
		return err
	}
	_, err := r.f.Seek(r.size, io.SeekStart)
	return err
}

func (r *Recorder) closeFiles() error {
	var err error
	if r.f != nil {
		err = r.f.Close()
	}
	return errors.Join(err, r.dir.Close())
}
