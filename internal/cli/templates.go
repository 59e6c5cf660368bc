package cli

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"strings"

	"github.com/hashicorp/go-envparse"

	"github.com/wardyn/nomad-driver-wardyn/internal/jobfile"
	"github.com/wardyn/nomad-driver-wardyn/plugin/host/taskenv"
)

// renderer renders the templates of one task.
type renderer struct {
	taskDir string            // on this machine
	shared  string            // the allocation's shared directory on this machine
	env     map[string]string // of the task
	facts   map[string]string // node.*, attr.* and meta.* with their prefixes
}

// render writes every template to its destination and returns what those with
// env = true add to the task's environment.
func (r renderer) render(templates []jobfile.Template) (map[string]string, error) {
	add := map[string]string{}
	for _, t := range templates {
		text, err := t.Render(r.lookup)
		if err != nil {
			return nil, err
		}
		if err := r.write(t, text); err != nil {
			return nil, fmt.Errorf("%s: template %s: %w", t.Pos, t.Destination, err)
		}
		if !t.Env {
			continue
		}
		vars, err := envparse.Parse(bytes.NewReader(text))
		if err != nil {
			return nil, fmt.Errorf("%s: template %s: env = true wants lines of the form KEY=value: %w", t.Pos, t.Destination, err)
		}
		maps.Copy(add, vars)
	}
	return add, nil
}

func (r renderer) lookup(name string) (string, bool) {
	if v, ok := r.env[name]; ok {
		return v, true
	}
	v, ok := r.facts[name]
	return v, ok
}

// place finds the directory a destination lies in and its path below that. A
// task may have files in its own directory and in the shared one.
func (r renderer) place(destination string) (dir, file string, err error) {
	known := maps.Clone(r.facts)
	maps.Copy(known, r.env)
	known["NOMAD_ALLOC_DIR"] = "../alloc" // from the task's directory, where paths start
	file = path.Join("task", taskenv.Interpolate(destination, known))
	if below, ok := strings.CutPrefix(file, "task/"); ok {
		return r.taskDir, below, nil
	}
	if below, ok := strings.CutPrefix(file, "alloc/"); ok {
		return r.shared, below, nil
	}
	return "", "", errors.New("the destination is outside the task's directory and the shared one")
}

// write puts a file where the template wants it. Links that a task has made
// are not followed out of the directory, and a link in the file's place is
// replaced.
func (r renderer) write(t jobfile.Template, text []byte) error {
	dir, file, err := r.place(t.Destination)
	if err != nil {
		return err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	if err := root.MkdirAll(path.Dir(file), 0o755); err != nil {
		return err
	}
	if err := root.Remove(file); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	f, err := root.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	err = errors.Join(err, f.Chmod(fs.FileMode(t.Perms)))
	if t.UID != nil || t.GID != nil {
		err = errors.Join(err, f.Chown(number(t.UID), number(t.GID)))
	}
	return errors.Join(err, f.Close())
}

// number is an optional id as chown takes it: -1 leaves the owner as it is.
func number(id *int) int {
	if id == nil {
		return -1
	}
	return *id
}
