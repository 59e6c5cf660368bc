package plugin

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/wardyn/nomad-driver-wardyn/internal/control"
	"github.com/wardyn/nomad-driver-wardyn/internal/proxy/dialguard"
	"github.com/wardyn/nomad-driver-wardyn/plugin/internal/wire/msgpack"
	"github.com/wardyn/nomad-driver-wardyn/runner/egress"
	"github.com/wardyn/nomad-driver-wardyn/runner/types"
)

// showExplanation says what would become of a request to a host, or without one
// what holds for the task and who decided it.
func showExplanation(c verbCall) error {
	switch len(c.args) {
	case 0:
		return showSettings(c)
	case 1:
	default:
		return &useError{"explain wants at most one HOST or HOST:PORT"}
	}
	a, err := egress.ParseAuthority(c.args[0], 443)
	if err != nil {
		return &useError{err.Error()}
	}
	b, err := c.plugin.backend()
	if err != nil {
		return err
	}
	host, _ := c.plugin.options()
	v := explain(c.task.state, host, b.Control.Approvals(c.task.state.Run), a)
	if c.json {
		return writeJSON(c.out, v)
	}
	fmt.Fprintf(c.out, "%s %s: %s\n", v.Verdict, a, v.Reason)
	if v.Change != "" {
		fmt.Fprintf(c.out, "to change it: %s\n", v.Change)
	}
	return nil
}

// showSettings explains a task that runs.
func showSettings(c verbCall) error {
	b, err := c.plugin.backend()
	if err != nil {
		return err
	}
	list, err := c.settings(b)
	if err != nil {
		return err
	}
	if c.json {
		return writeJSON(c.out, list)
	}
	return PrintSettings(c.out, list)
}

// settings are the task's: its config is translated once more, for the class it
// got and with the operator's options of now. Where the client has lost the config
// it is what held at the start.
func (c verbCall) settings(b *Backend) ([]Setting, error) {
	if len(c.task.config.GetMsgpackDriverConfig()) == 0 {
		return b.loadSettings(c.task.state.Run)
	}
	var config TaskConfig
	if err := msgpack.Decode(c.task.config.GetMsgpackDriverConfig(), &config); err != nil {
		return nil, err
	}
	host, comp := c.plugin.options()
	fx := factsNow(c.ctx, b, c.task.config, finding{}, comp)
	fx.Classes = []types.ConfinementClass{c.task.state.Class}
	j, f := judgeTask(c.task.config, config, host, fx)
	if err := f.err(); err != nil {
		return nil, fmt.Errorf("it could not be started any more with the operator's options of now: %w", err)
	}
	return settings(c.task.config, j, translate(c.task.config, j.ask, j.given, j.class, host, fx), host), nil
}

// PrintSettings writes settings for people, a heading for each section.
func PrintSettings(w io.Writer, list []Setting) error {
	var b strings.Builder
	section := ""
	for _, s := range list {
		if s.Section != section {
			section = s.Section
			fmt.Fprintf(&b, "%s\n", section)
		}
		by := string(s.By)
		if s.Why != "" {
			by += ": " + s.Why
		}
		fmt.Fprintf(&b, "  %-18s %-30s %s\n", plainText(s.Name), plainText(s.Value), plainText(by))
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// explanation is what explain shows.
type explanation struct {
	Verdict egress.Decision `json:"verdict"`
	Reason  string          `json:"reason"`
	Change  string          `json:"change,omitempty"`
}

// explain judges a host by the address guard if it is an address, by the lists and
// by what was decided about its first use, in the proxy's order. What it resolves
// to is judged by the proxy, request by request.
func explain(s state, h HostConfig, decided []control.Approval, a egress.Authority) explanation {
	find := func(entries []string, parse func(string) (egress.Entry, error)) (egress.Entry, bool) {
		list, _ := egress.ParseList(entries, parse)
		return list.Find(a.Host, a.Port)
	}
	if why := dialguard.NeverDialled(a.Host); why != "" {
		return explanation{egress.Deny, "it " + why, ""}
	}
	if e, ok := find(h.DenyDomains, egress.ParseDeny); ok {
		return explanation{egress.Deny, fmt.Sprintf("the operator denies %s to every task", e), "the plugin option deny_domains"}
	}
	if e, ok := find(s.Deny, egress.ParseDeny); ok {
		return explanation{egress.Deny, fmt.Sprintf("the job denies %s", e), "egress.deny in the job"}
	}
	if _, ok := find(h.AllowDomains, egress.ParseCeiling); !ok && len(h.AllowDomains) > 0 {
		return explanation{egress.Deny, "the operator's ceiling does not cover it", "the plugin option allow_domains"}
	}
	if e, ok := find(s.Allow, egress.ParseAllow); ok {
		why := fmt.Sprintf("the job allows %s", e)
		if len(s.Methods) > 0 && !slices.Contains(s.Methods, "CONNECT") {
			why += ", by plain HTTP only, since egress.methods has no CONNECT"
		}
		return explanation{egress.Allow, why, ""}
	}
	if s.AllowAll {
		return explanation{egress.Allow, "the job allows everything that is not denied", ""}
	}
	if s.Learn {
		return explanation{egress.Allow, "the job does not list it; in learn mode it passes and is recorded as what would be denied", ""}
	}
	if types.FirstUseMode(s.FirstUse).RaisesApproval() {
		return explainFirstUse(h.Approvals, decided, a)
	}
	return explanation{egress.Deny, "the job does not list it", addToAllow(a)}
}

// explainFirstUse is for a host that no list speaks of and somebody is, or was,
// asked about. The latest question counts: an earlier one has expired.
func explainFirstUse(mode ApprovalMode, decided []control.Approval, a egress.Authority) explanation {
	for _, ap := range slices.Backward(decided) {
		if ap.Host != a.Host.String() || ap.Port != int(a.Port) {
			continue
		}
		id, by := ap.ID.String()[:8], safeText(ap.DecidedBy)
		switch {
		case ap.State == egress.ApprovalApproved && ap.Until.IsZero():
			return explanation{egress.Allow, "its first use was approved, by " + by, mode.way("revoke", id)}
		case ap.State == egress.ApprovalApproved:
			return explanation{egress.Allow, fmt.Sprintf("its first use was approved until %s, by %s", ap.Until.UTC().Format(time.RFC3339), by), mode.way("revoke", id)}
		case ap.State == egress.ApprovalDenied && ap.Revoked:
			return explanation{egress.Deny, "the approval of its first use was taken back, by " + by + "; that holds for the session", addToAllow(a)}
		case ap.State == egress.ApprovalDenied:
			return explanation{egress.Deny, "its first use was denied, by " + by + "; that holds for the session", addToAllow(a)}
		case ap.Open():
			return explanation{egress.Pending, "the job does not list it, and its first use waits for a reviewer", mode.way("approve", id) + ", or " + addToAllow(a)}
		}
	}
	return explanation{egress.Pending, "the job does not list it, and its first use is put to a reviewer (egress.first_use)", "wardyn pending shows what waits; or " + addToAllow(a)}
}

func addToAllow(a egress.Authority) string {
	return fmt.Sprintf("add %q to egress.allow in the job", a.Host)
}
