// Package allocdir prepares the directories of an allocation and its tasks as a Nomad client
// does for a driver that runs tasks in images of their own:
//
//	<root>/<alloc id>/alloc/{data,logs,tmp}    shared by all tasks
//	<root>/<alloc id>/<task>/{local,secrets,private,tmp}
//
// Directories a task may write in are open to every user, as the user inside an image is not
// known outside; what keeps other users of the machine out is the root.
package allocdir

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// nobody owns what tasks share when the client is root.
const nobody = 65534

// The modes of a client's directories.
const (
	rootMode    fs.FileMode = 0o711
	allocMode   fs.FileMode = 0o755
	openMode    fs.FileMode = 0o777
	tmpMode     fs.FileMode = 0o777 | fs.ModeSticky
	privateMode fs.FileMode = 0o700
)

// secretsBytes is the size of a task's secrets directory when it lies in memory.
const secretsBytes = 1 << 20

// Alloc is the directory of one allocation.
type Alloc struct {
	Dir    string // <root>/<alloc id>
	Shared string // Dir/alloc
	Logs   string // Shared/logs

	inMemory bool
	tasks    []*Task
}

// Task is the directory of one task.
type Task struct {
	Dir     string
	Local   string
	Secrets string
	Private string // never shown to the task
	Tmp     string
}

// New makes the directories of an allocation, or takes the ones that are there already.
// secretsInMemory puts every task's secrets on a tmpfs of its own, which needs root.
func New(root, allocID string, secretsInMemory bool) (*Alloc, error) {
	if err := checkName("allocation id", allocID); err != nil {
		return nil, err
	}
	dir := filepath.Join(root, allocID)
	shared := filepath.Join(dir, "alloc")
	a := &Alloc{Dir: dir, Shared: shared, Logs: filepath.Join(shared, "logs"), inMemory: secretsInMemory}
	err := errors.Join(
		os.MkdirAll(root, rootMode),
		mkdir(dir, allocMode),
		mkdirOpen(shared, openMode),
		mkdirOpen(filepath.Join(shared, "data"), openMode),
		mkdirOpen(a.Logs, openMode),
		mkdirOpen(filepath.Join(shared, "tmp"), tmpMode),
	)
	if err != nil {
		return nil, fmt.Errorf("prepare allocation directory: %w", err)
	}
	return a, nil
}

// AddTask makes the directories of a task, or takes the ones that are there already.
func (a *Alloc) AddTask(name string) (*Task, error) {
	if err := checkName("task name", name); err != nil {
		return nil, err
	}
	if name == "alloc" {
		return nil, errors.New(`task name "alloc" is the name of the shared directory`)
	}
	dir := filepath.Join(a.Dir, name)
	t := &Task{
		Dir: dir, Local: filepath.Join(dir, "local"), Secrets: filepath.Join(dir, "secrets"),
		Private: filepath.Join(dir, "private"), Tmp: filepath.Join(dir, "tmp"),
	}
	err := errors.Join(
		mkdirOpen(dir, openMode),
		mkdirOpen(t.Local, openMode),
		mkdirOpen(t.Tmp, tmpMode),
		mkdir(t.Private, privateMode),
		a.mkSecrets(t.Secrets),
	)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("prepare directory of task %s: %w", name, err), unmount(t.Secrets))
	}
	a.tasks = append(a.tasks, t)
	return t, nil
}

func (a *Alloc) mkSecrets(dir string) error {
	if err := mkdir(dir, openMode); err != nil {
		return err
	}
	if a.inMemory {
		mounted, err := isMount(dir)
		if err != nil {
			return err
		}
		if !mounted {
			opts := fmt.Sprintf("size=%d", secretsBytes)
			if err := unix.Mount("tmpfs", dir, "tmpfs", unix.MS_NOEXEC|unix.MS_NOSUID|unix.MS_NODEV, opts); err != nil {
				return fmt.Errorf("mount tmpfs on %s: %w", dir, err)
			}
		}
	}
	return mkdirOpen(dir, openMode)
}

// Remove unmounts and deletes everything of the allocation. The root stays.
func (a *Alloc) Remove() error {
	var errs []error
	for _, t := range a.tasks {
		errs = append(errs, unmount(t.Secrets))
	}
	if err := errors.Join(errs...); err != nil {
		return err // deleting now would reach into what is still mounted
	}
	if err := os.RemoveAll(a.Dir); err != nil {
		return fmt.Errorf("remove allocation directory: %w", err)
	}
	return nil
}

// mkdir makes a directory with exactly this mode, whatever the umask says.
func mkdir(dir string, mode fs.FileMode) error {
	if err := os.MkdirAll(dir, mode); err != nil {
		return err
	}
	return os.Chmod(dir, mode)
}

// mkdirOpen makes a directory that tasks may write in.
func mkdirOpen(dir string, mode fs.FileMode) error {
	if err := mkdir(dir, mode); err != nil {
		return err
	}
	if os.Geteuid() != 0 {
		return nil
	}
	return os.Chown(dir, nobody, nobody)
}

// isMount reports whether something is mounted on dir itself.
func isMount(dir string) (bool, error) {
	var own, parent unix.Stat_t
	if err := unix.Lstat(dir, &own); err != nil {
		return false, fmt.Errorf("look at %s: %w", dir, err)
	}
	if err := unix.Lstat(filepath.Dir(dir), &parent); err != nil {
		return false, fmt.Errorf("look at %s: %w", filepath.Dir(dir), err)
	}
	return own.Dev != parent.Dev, nil
}

// unmount takes the tmpfs off dir; when it is still in use it goes with its last user.
func unmount(dir string) error {
	mounted, err := isMount(dir)
	if errors.Is(err, fs.ErrNotExist) || (err == nil && !mounted) {
		return nil
	}
	if err != nil {
		return err
	}
	if err := unix.Unmount(dir, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW); err != nil {
		return fmt.Errorf("unmount %s: %w", dir, err)
	}
	return nil
}

func checkName(what, name string) error {
	if name == "" || name == "." || name == ".." || strings.ContainsAny(name, "/\x00") {
		return fmt.Errorf("%s %q cannot be the name of a directory", what, name)
	}
	return nil
}
