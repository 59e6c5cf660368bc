package docker

import (
	"errors"
	"strings"
	"testing"

	"github.com/wardyn/nomad-driver-wardyn/runner"
)

// TestExplained: an engine's words about a task's own options come with the
// option, its value and what to do; whether another attempt helps is decided
// by the contract's word.
func TestExplained(t *testing.T) {
	a := asked{image: "web:1", user: "nosuch", workDir: "/etc/passwd", cpus: "0-99", appArmor: "strict", ulimits: []runner.Ulimit{{Name: "memlock", Soft: -1, Hard: -1}, {Name: "sigpending", Soft: 1, Hard: 2}}}
	for _, c := range []struct {
		engine string
		known  []knownWord
		want   string // prefix of the text after the contract's word
		is     error
	}{
		{"unable to find user nosuch: no matching entries in passwd file", startWords, `user = "nosuch": the image has no user of this name; name one`, runner.ErrInvalid},
		{"unable to find group x: no matching entries in group file", startWords, `user = "nosuch": the image has no group`, runner.ErrInvalid},
		{"Cannot mkdir: /etc/passwd is not a directory", startWords, `work_dir = "/etc/passwd": in the image this is no folder`, runner.ErrInvalid},
		{"write /x: no space left on device", startWords, `image = "web:1": the engine's disk is full`, runner.ErrUnavailable},
		{"error setting rlimits for ready process: error setting rlimit type 8: operation not permitted", startWords, `ulimit.memlock = "-1:-1": this node lets nobody`, runner.ErrInvalid},
		{"error setting rlimit type 11: operation not permitted", startWords, `ulimit.sigpending = "1:2": this node`, runner.ErrInvalid},
		{"Requested CPUs are not available - requested 0-99, available: 0-1", startWords, `cpuset_cpus = "0-99": this node has no such CPUs`, runner.ErrInvalid},
		{"Invalid value 3-1 for cpuset cpus: invalid format: 3-1", startWords, `cpuset_cpus = "0-99": `, runner.ErrInvalid},
		{"unable to start container process: apparmor failed to apply profile: write fsmount:fscontext:proc/thread-self/attr/exec: no such file or directory", startWords, `apparmor_profile = "strict": no profile of this name is loaded`, runner.ErrInvalid},
		{"invalid reference format: repository name must be lowercase", nameWords, `image = "web:1": that is no name`, runner.ErrInvalid},
		{"pull access denied for web, repository does not exist or may require 'docker login'", pullWords, `image = "web:1": it is not on this node, and its registry has none of this name for these`, runner.ErrDenied},
		{"manifest unknown: manifest unknown", pullWords, `image = "web:1": it is not on this node, and its registry has none of this name and tag`, runner.ErrNotFound},
		{"no matching manifest for linux/s390x in the manifest list entries", pullWords, `image = "web:1": its registry has it for other machines`, runner.ErrInvalid},
		{"toomanyrequests: You have reached your pull rate limit", pullWords, `image = "web:1": its registry allows no more`, runner.ErrUnavailable},
		{`Get "https://r/v2/": dial tcp: lookup r: no such host`, pullWords, `image = "web:1": it is not on this node, and its registry cannot be reached`, runner.ErrUnavailable},
		{`Get "https://r/v2/": x509: certificate signed by unknown authority`, pullWords, `image = "web:1": it is not on this node, and the engine does not trust`, runner.ErrUnavailable},
	} {
		err := explained(errors.New(c.engine), a, c.known)
		if !errors.Is(err, c.is) || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), c.engine) {
			t.Errorf("%q: %v", c.engine, err)
		}
	}
	plain := errors.New("something else")
	if err := explained(plain, a, startWords); err != plain {
		t.Errorf("%v", err)
	}
	if err := explained(nil, a, startWords); err != nil {
		t.Error(err)
	}
	a.user = "" // then it is the image's own
	if err := explained(errors.New("unable to find user x"), a, startWords); !strings.Contains(err.Error(), `image = "web:1": the image has no user`) {
		t.Error(err)
	}
}
