package plugin

import (
	"fmt"

	"github.com/wardyn/nomad-driver-wardyn/plugin/internal/wire/hclspec"
	"github.com/wardyn/nomad-driver-wardyn/runner"
)

// SessionHostConfig is the part of the plugin's config about what sessions may
// keep and whether they may be stopped in between.
type SessionHostConfig struct {
	Sessions *SessionRulesConfig `codec:"sessions"`
}

// SessionRulesConfig is the operator's sessions block. What is left out is
// allowed.
type SessionRulesConfig struct {
	Snapshot  *bool `codec:"snapshot"`
	Suspend   *bool `codec:"suspend"`
	Home      *bool `codec:"home"`
	Workspace *bool `codec:"workspace"`
}

// addSessionHost adds the schema of SessionHostConfig.
func addSessionHost(s map[string]*hclspec.Spec) {
	block := map[string]*hclspec.Spec{}
	for _, name := range []string{"snapshot", "suspend", "home", "workspace"} {
		block[name] = hclspec.Attr(name, hclspec.Bool)
	}
	s["sessions"] = hclspec.Block("sessions", hclspec.Object(block))
}

// SessionRules are the operator's decisions about sessions. The zero value
// allows everything.
type SessionRules struct {
	NoSnapshot  bool // no images of running sandboxes
	NoSuspend   bool // no freezing, neither by verb nor by signal
	NoHome      bool // no home that is kept
	NoWorkspace bool // no workspace that outlives its allocation
}

func sessionRules(c *SessionRulesConfig) SessionRules {
	if c == nil {
		return SessionRules{}
	}
	off := func(b *bool) bool { return b != nil && !*b }
	return SessionRules{NoSnapshot: off(c.Snapshot), NoSuspend: off(c.Suspend), NoHome: off(c.Home), NoWorkspace: off(c.Workspace)}
}

// refuseSession is the answer to a use that the operator does not allow. option
// is its name in the sessions block.
func refuseSession(option string) error {
	return fmt.Errorf("the operator does not allow it (plugin option sessions.%s): %w", option, runner.ErrDenied)
}

// sessions tells what the operator took from sessions: verbs that will be
// refused do not show in any other setting.
func (s *settingList) sessions(r SessionRules) {
	s.section = "session"
	for _, x := range []struct {
		off  bool
		name string
	}{{r.NoSuspend, "suspend"}, {r.NoSnapshot, "snapshot"}, {r.NoHome, "home"}, {r.NoWorkspace, "workspace"}} {
		if x.off {
			s.add(x.name, "refused", ByOperator, "plugin option sessions."+x.name)
		}
	}
}
