package control

import (
	"bufio"
	"encoding/json"
	"errors"
	"io"
	"os"
)

// maxLine bounds a line that is read back; none of ours is longer.
const maxLine = 512 << 10

// replaceFile replaces a file of the folder in one step. What is written first
// is a file of this call's own: a job may have planted a pipe under its name, or
// a link to another of our files.
func replaceFile(root *os.Root, name string, data []byte) error {
	tmp := "." + name + ".new"
	if err := ignoreMissing(root.Remove(tmp)); err != nil {
		return err
	}
	f, err := root.OpenFile(tmp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	if _, err := f.Write(data); err != nil {
		f.Close()
		return err
	}
	if err := f.Close(); err != nil {
		return err
	}
	return root.Rename(tmp, name)
}

// scan visits the records of a file from its start and returns where its last
// whole line ends. Lines that are no records are passed over.
func scan(f io.Reader, visit func(Record)) (end int64, err error) {
	in := bufio.NewReaderSize(f, 64<<10)
	var text []byte
	for pos := int64(0); ; {
		part, err := in.ReadSlice('\n')
		pos += int64(len(part))
		if len(text)+len(part) <= maxLine {
			text = append(text, part...)
		}
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		case errors.Is(err, io.EOF):
			return end, nil
		case err != nil:
			return 0, err
		}
		var r Record
		if json.Unmarshal(text, &r) == nil {
			visit(r)
		}
		text, end = text[:0], pos
	}
}

// scanTail is scan over the last n bytes of a file. A line that begins before
// them is passed over: the end of a record is no record.
func scanTail(f *os.File, n int64, visit func(Record)) error {
	fi, err := f.Stat()
	if err != nil {
		return err
	}
	start := max(fi.Size()-n, 0)
	_, err = scan(io.NewSectionReader(f, start, fi.Size()-start), visit)
	return err
}
