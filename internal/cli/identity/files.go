package identity

import (
	"errors"
	"io/fs"
	"os"
	"os/user"
	"path"
	"strconv"
	"strings"
)

// Place is where a task's files are on this machine.
type Place struct {
	Task   string // its directory
	Shared string // what the group's tasks share, ../alloc to it
	User   string // whom they are for; "" leaves that to the image
}

// The modes of a token's file: of one that has an owner, and of one whose owner
// is not known outside of the image, as a client has them.
const (
	ownMode    fs.FileMode = 0o600
	sharedMode fs.FileMode = 0o644
)

// write puts a token in its place, in one step: a task never reads half of one,
// nor none. Links that a task has made are not followed out of the directory,
// and whatever is in the file's place is replaced.
func (p Place) write(file, token string) error {
	dir, below := p.Task, file
	if rest, ok := strings.CutPrefix(file, "../alloc/"); ok {
		dir, below = p.Shared, rest
	}
	base, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer base.Close()
	folder, err := base.OpenRoot(path.Dir(below))
	if err != nil {
		return err
	}
	defer folder.Close()
	name := path.Base(below)
	fresh := Unfinished(name)
	if err := folder.Remove(fresh); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	f, err := folder.OpenFile(fresh, os.O_WRONLY|os.O_CREATE|os.O_EXCL, ownMode)
	if err != nil {
		return err
	}
	_, err = f.WriteString(token)
	if err = errors.Join(err, give(f, p.User), f.Close()); err == nil {
		err = folder.Rename(fresh, name)
	}
	if err != nil {
		return errors.Join(err, folder.Remove(fresh))
	}
	return nil
}

// Unfinished is how a token's file is called until it is in its place.
func Unfinished(name string) string { return "." + name + ".new" }

// give hands a file to a user alone. A user that this machine does not know, or
// that this process may give nothing to, gets one that all can read, as a client
// does it: the folders around it keep the others of this machine out.
func give(f *os.File, user string) error {
	if id, ok := userID(user); ok && f.Chown(id, -1) == nil {
		return f.Chmod(ownMode)
	}
	return f.Chmod(sharedMode)
}

// userID is the number of a user, given as a name or a number, with or without
// a group behind a colon.
func userID(name string) (int, bool) {
	name, _, _ = strings.Cut(name, ":")
	if id, err := strconv.ParseUint(name, 10, 31); err == nil {
		return int(id), true
	}
	if name == "" {
		return 0, false
	}
	u, err := user.Lookup(name)
	if err != nil {
		return 0, false
	}
	id, err := strconv.Atoi(u.Uid)
	return id, err == nil
}
