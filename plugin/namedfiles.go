package plugin

import (
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"

	"github.com/wardyn/nomad-driver-wardyn/internal/taskpath"
)

// NamedFile is a file or folder of the node that an operator's option names.
type NamedFile struct {
	Option, Path string
	Fault        string // why it cannot serve; "" where it can
	Needed       bool   // the driver itself cannot work without it, not a single task
}

// Files looks at what the options name on this node. Nothing of their contents is
// in the answer. A plugin takes options whose files are not there: they may come
// later, and are asked for when a task needs them.
func (h HostConfig) Files() []NamedFile {
	l := &namedFiles{}
	secret := func(path string) error { _, err := readHostSecret(path); return err }
	l.look("ca_file", h.CAFile, certificates)
	l.look("auth.config", h.Images.AuthFile, readable)
	for _, name := range slices.Sorted(maps.Keys(h.Credentials)) {
		l.look("credential."+name+".file", h.Credentials[name].File, secret)
	}
	for _, name := range slices.Sorted(maps.Keys(h.GitGrants)) {
		l.look("git_grant."+name+".token_file", h.GitGrants[name].TokenFile, secret)
	}
	if u := h.Upstream; u != nil {
		l.look("upstream_proxy.credentials_file", u.CredentialsFile, secret)
	}
	if c := h.ControlPlane; c != nil {
		l.look("control_plane.token_file", c.TokenFile, secret)
	}
	if o := h.OTLP; o != nil {
		l.look("otlp.headers_file", o.HeadersFile, secret)
		l.look("otlp.ca_file", o.CAFile, certificates).Needed = true
	}
	if a := h.AgentAPI; a != nil {
		l.look("agent_api.token_file", a.TokenFile, secret)
		l.look("agent_api.ca_file", a.CAFile, certificates)
	}
	l.look("audit_dir", h.AuditDir, ownFolder).Needed = true
	for _, name := range slices.Sorted(maps.Keys(h.Limits.Seccomp)) {
		l.look("seccomp_profiles."+name, h.Limits.Seccomp[name], readable)
	}
	for _, dir := range h.Volumes.Paths {
		l.look("volumes.paths", dir, mountable)
	}
	return l.list
}

type namedFiles struct{ list []NamedFile }

// look adds a file, if the option names one, and returns it.
func (l *namedFiles) look(option, path string, check func(string) error) *NamedFile {
	if path == "" {
		return &NamedFile{}
	}
	f := NamedFile{Option: option, Path: path}
	switch err := check(path); {
	case errors.Is(err, fs.ErrNotExist):
		f.Fault = "it is not there"
	case err != nil:
		f.Fault = err.Error()
	}
	l.list = append(l.list, f)
	return &l.list[len(l.list)-1]
}

// ownFolder looks at a folder of the driver's own. The driver makes one that is
// not there, and only root can tell whether one is root's alone.
func ownFolder(path string) error {
	if os.Geteuid() != 0 {
		return nil
	}
	root, err := taskpath.OpenRecords(path, false)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return root.Close()
}

// mountable looks at a folder that jobs may mount, which no link may lead to.
func mountable(path string) error {
	if _, err := os.Stat(path); err != nil {
		return err
	}
	if real := leadsTo(path); real != path {
		return fmt.Errorf("it has a symbolic link in it, which no mount follows; list %q, where it leads", real)
	}
	return nil
}

// certificates looks for at least one in a PEM file.
func certificates(path string) error {
	if err := readable(path); err != nil {
		return err
	}
	b, err := os.ReadFile(path)
	if err == nil && !x509.NewCertPool().AppendCertsFromPEM(b) {
		err = errors.New("it holds no certificate")
	}
	return err
}

// readable opens a regular file and reads nothing of it.
func readable(path string) error {
	fi, err := os.Stat(path)
	if err != nil {
		return err
	}
	if !fi.Mode().IsRegular() {
		return fmt.Errorf("it is no regular file")
	}
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	return f.Close()
}
