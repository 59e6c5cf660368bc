package control

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// maxLine bounds a line that is read back; none of ours is longer.
const maxLine = 512 << 10

// openFolder opens the folder for people's files, making it when wanted. A
// job may have planted something in its place, so it must be a real folder,
// ours, and closed to everyone else.
func openFolder(dir string, create bool) (*os.Root, error) {
	if !filepath.IsAbs(dir) {
		return nil, fmt.Errorf("folder %q: want an absolute path", dir)
	}
	if create {
		if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
			return nil, err
		}
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	if err := ownFolder(dir, root); err != nil {
		root.Close()
		return nil, err
	}
	return root, nil
}

// ownFolder judges the folder that was opened; its name must be no link to it.
func ownFolder(dir string, root *os.Root) error {
	named, err := os.Lstat(dir)
	if err != nil {
		return err
	}
	fi, err := root.Stat(".")
	if err != nil {
		return err
	}
	st, ok := fi.Sys().(*syscall.Stat_t)
	switch {
	case !os.SameFile(named, fi):
		return fmt.Errorf("%s is a link; the driver's own folder belongs there", dir)
	case !ok || int(st.Uid) != os.Geteuid():
		return fmt.Errorf("%s belongs to someone else; the driver's own folder belongs there", dir)
	case fi.Mode().Perm() != 0o700:
		return fmt.Errorf("%s has mode %04o, want 0700", dir, fi.Mode().Perm())
	}
	return nil
}

// openFile opens a regular file of one name in the folder. Anything else there
// is refused, without waiting for what may be a pipe.
func openFile(root *os.Root, name string, flags int) (*os.File, error) {
	f, err := root.OpenFile(name, flags|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0o600)
	if err != nil {
		return nil, err
	}
	fi, err := f.Stat()
	if err != nil {
		f.Close()
		return nil, err
	}
	named, err := root.Lstat(name)
	st, ok := fi.Sys().(*syscall.Stat_t)
	if err != nil || !ok || !fi.Mode().IsRegular() || !os.SameFile(named, fi) || st.Nlink != 1 {
		f.Close()
		return nil, errors.Join(fmt.Errorf("%s is not a plain file of the driver's", filepath.Join(root.Name(), name)), err)
	}
	return f, nil
}

// replaceFile replaces a file of the folder in one step.
func replaceFile(root *os.Root, name string, data []byte) error {
	tmp := "." + name + ".new"
	if err := root.WriteFile(tmp, data, 0o600); err != nil {
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
