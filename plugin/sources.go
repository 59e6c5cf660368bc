package plugin

import (
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/google/uuid"
	"golang.org/x/sys/unix"

	"github.com/wardyn/nomad-driver-wardyn/internal/control"
	"github.com/wardyn/nomad-driver-wardyn/internal/taskpath"
	"github.com/wardyn/nomad-driver-wardyn/plugin/internal/wire/driverpb"
	"github.com/wardyn/nomad-driver-wardyn/runner"
	"github.com/wardyn/nomad-driver-wardyn/runner/egress"
)

// source says where the secret of one grant is, for recovery too. The secret
// itself is never kept.
type source struct {
	Grant  uuid.UUID `json:"grant"`
	Name   string    `json:"name"`
	Host   string    `json:"host,omitempty"`
	Header string    `json:"header,omitempty"`
	Format string    `json:"format,omitempty"`
	// One of the three: a file beneath the task's secrets folder, or the name
	// of a credential or of a git grant of the operator's.
	File       string `json:"file,omitempty"`
	Credential string `json:"credential,omitempty"`
	GitGrant   string `json:"git_grant,omitempty"`
	// Of a token for a repository: which, and what may be done there.
	Repo string          `json:"repo,omitempty"`
	Git  *egress.GitRule `json:"git,omitempty"`
}

// injectSources gives each rule a grant of its run.
func injectSources(run uuid.UUID, a ask) []source {
	var out []source
	for _, in := range a.Inject {
		out = append(out, source{
			Grant: uuid.NewSHA1(run, []byte("inject "+in.Name)), Name: in.Name,
			Host: in.Host, Header: in.Header, Format: in.Format, File: in.File, Credential: in.Credential,
		})
	}
	return out
}

// isForTask tells of names in a task's secrets folder which of them the driver
// does not read itself: they must be for the task.
func isForTask(all []source) func(name string) bool {
	return func(name string) bool {
		return !slices.ContainsFunc(all, func(s source) bool {
			first, _, _ := strings.Cut(s.File, "/")
			return first == name
		})
	}
}

// option is the block of the job that the secret is for.
func (s source) option() string {
	if s.Git != nil {
		return "git." + s.Name
	}
	return "inject." + s.Name
}

func (s source) rule() egress.InjectionRule {
	return egress.InjectionRule{Host: s.Host, Header: s.Header, SecretName: s.Name, Format: s.Format}
}

// grants are the rules as they travel to the sidecar.
func grants(all []source) []runner.InjectionGrant {
	var out []runner.InjectionGrant
	for _, s := range all {
		if s.Host != "" {
			out = append(out, runner.InjectionGrant{GrantID: s.Grant, Rule: s.rule()})
		}
	}
	return out
}

// gitGrants and gitRules are those of repositories as they travel to the sidecar.
func gitGrants(all []source) map[string]uuid.UUID {
	var out map[string]uuid.UUID
	for _, s := range all {
		if s.Git != nil {
			if out == nil {
				out = map[string]uuid.UUID{}
			}
			out[s.Repo] = s.Grant
		}
	}
	return out
}

func gitRules(all []source) map[string]egress.GitRule {
	out := map[string]egress.GitRule{}
	for _, s := range all {
		if s.Git != nil {
			out[s.Repo] = *s.Git
		}
	}
	return out
}

// credentials are what a task's sidecar may ask for. Whether the operator
// still has a credential, and has it for this job, is looked at each time.
func (p *Plugin) credentials(tc *driverpb.TaskConfig, all []source) []control.Credential {
	dirs := taskDirs(tc)
	h, _ := p.options()
	out := make([]control.Credential, 0, len(all))
	for _, s := range all {
		c := control.Credential{Grant: s.Grant, Name: s.option(), Read: func() (string, error) { return p.readSecret(tc, dirs, s) }}
		if s.Host != "" {
			c.Rule, c.Cleartext = s.rule(), h.inClear(s.Credential, s.Host)
		}
		out = append(out, c)
	}
	return out
}

// maxSecret bounds a secret's file.
const maxSecret = 64 << 10

func (p *Plugin) readSecret(tc *driverpb.TaskConfig, dirs taskpath.Dirs, s source) (string, error) {
	if s.File != "" {
		b, err := dirs.ReadSecret(s.File, maxSecret)
		return string(b), err
	}
	h, _ := p.options()
	file, who, err := h.operators(s)
	if err != nil {
		return "", err
	}
	if why := who.admits(tc.GetNamespace(), tc.GetJobId()); why != "" {
		return "", fmt.Errorf("%q: %s", s.Credential+s.GitGrant, why)
	}
	return readHostSecret(file)
}

// operators finds a secret of the operator's, and whom it is for.
func (h HostConfig) operators(s source) (file string, who tenants, err error) {
	if s.GitGrant != "" {
		g, known := h.GitGrants[s.GitGrant]
		if !known {
			return "", tenants{}, fmt.Errorf("the operator has no git grant %q any more", s.GitGrant)
		}
		return g.TokenFile, g.For, nil
	}
	c, known := h.Credentials[s.Credential]
	if !known {
		return "", tenants{}, fmt.Errorf("the operator has no credential %q any more", s.Credential)
	}
	return c.File, c.For, nil
}

// readHostSecret reads a secret of the operator's: a regular file that not
// everybody can read or write.
func readHostSecret(path string) (string, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return "", err
	}
	defer f.Close()
	fi, err := f.Stat()
	switch {
	case err != nil:
		return "", err
	case !fi.Mode().IsRegular() || fi.Size() > maxSecret:
		return "", fmt.Errorf("%s is no regular file of at most %d bytes", path, maxSecret)
	case fi.Mode().Perm()&0o007 != 0:
		return "", fmt.Errorf("%s is open to every user of the node; chmod 600 it", path)
	}
	b, err := io.ReadAll(io.LimitReader(f, maxSecret))
	return string(b), err
}

// checkSecrets reads every secret once before anything is made, so that a task
// does not start without one.
func checkSecrets(all []control.Credential) error {
	f := &faults{what: "the task"}
	for _, c := range all {
		if _, err := c.Value(); err != nil {
			f.add(c.Name, nil, err.Error(), "")
		}
	}
	if err := f.err(); err != nil {
		return fmt.Errorf("%w: %w", runner.ErrInvalid, err)
	}
	return nil
}
