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

	nomadVars jobfile.NomadVars
	namespace string // the job's
}

// payloadMode is what a client's usual umask makes of the mode it gives a payload.
const payloadMode = 0o755

// payload writes what the job was dispatched with to where the task wants it. As
// with a client, no payload makes no file.
func (r renderer) payload(t jobfile.Task, payload []byte) error {
	if t.PayloadFile == "" || len(payload) == 0 {
		return nil
	}
	if err := r.write(file{path: path.Join("local", t.PayloadFile), mode: payloadMode}, payload); err != nil {
		return fmt.Errorf("%s: task %q: dispatch_payload: %w", t.Pos, t.Name, err)
	}
	return nil
}

// render writes every template to its destination and returns what those with
// env = true add to the task's environment.
func (r renderer) render(templates []jobfile.Template) (map[string]string, error) {
	add := map[string]string{}
	for _, t := range templates {
		text, err := t.Render(jobfile.Inputs{Lookup: r.lookup, NomadVars: r.nomadVars, Namespace: r.namespace})
		if err != nil {
			return nil, err
		}
		if err := r.write(r.target(t), text); err != nil {
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

// file is one to be written. Its path starts at the task's directory.
type file struct {
	path     string
	mode     fs.FileMode
	uid, gid *int // nil leaves the owner as it is
}

// target is where a template goes.
func (r renderer) target(t jobfile.Template) file {
	known := maps.Clone(r.facts)
	maps.Copy(known, r.env)
	known["NOMAD_ALLOC_DIR"] = "../alloc" // from the task's directory
	return file{path: taskenv.Interpolate(t.Destination, known), mode: fs.FileMode(t.Perms), uid: t.UID, gid: t.GID}
}

// place finds the directory a path lies in and the rest of it below that. A task
// may have files in its own directory and in the shared one.
func (r renderer) place(destination string) (dir, file string, err error) {
	file = path.Join("task", destination)
	if below, ok := strings.CutPrefix(file, "task/"); ok {
		return r.taskDir, below, nil
	}
	if below, ok := strings.CutPrefix(file, "alloc/"); ok {
		return r.shared, below, nil
	}
	return "", "", errors.New("it is outside the task's directory and the shared one")
}

// write writes a file. Links that a task has made are not followed out of the
// directory, and a link in the file's place is replaced.
func (r renderer) write(to file, text []byte) error {
	dir, name, err := r.place(to.path)
	if err != nil {
		return err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	if err := root.MkdirAll(path.Dir(name), 0o755); err != nil {
		return err
	}
	if err := root.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	f, err := root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	err = errors.Join(err, f.Chmod(to.mode))
	if to.uid != nil || to.gid != nil {
		err = errors.Join(err, f.Chown(number(to.uid), number(to.gid)))
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
