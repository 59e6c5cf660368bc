package plugin

import (
	"fmt"
	"strings"
	"time"

	"github.com/wardyn/nomad-driver-wardyn/internal/control"
	"github.com/wardyn/nomad-driver-wardyn/runner/egress"
)

// byExec is all that is known of who uses a verb: the protocol names nobody.
const byExec = "alloc-exec, caller not disclosed by Nomad"

func showPending(c verbCall) error {
	if len(c.args) > 0 {
		return &useError{"pending takes no arguments; -all shows decided ones too"}
	}
	b, err := c.plugin.backend()
	if err != nil {
		return err
	}
	list := []control.Approval{}
	for _, a := range b.Control.Approvals(c.task.state.Run) {
		if c.all || a.Open() {
			list = append(list, a)
		}
	}
	if c.json {
		return writeJSON(c.out, list)
	}
	if len(list) == 0 {
		fmt.Fprintln(c.out, "nothing waits for approval")
	}
	for _, a := range list {
		line := []string{a.ID.String()[:8], safeText(target(a)), verdictWord(a), a.RequestedAt.UTC().Format(time.RFC3339)}
		if a.DecidedBy != "" {
			line = append(line, "by "+safeText(a.DecidedBy))
		}
		if a.Note != "" {
			line = append(line, "note: "+safeText(a.Note))
		}
		fmt.Fprintln(c.out, strings.Join(line, "  "))
	}
	return nil
}

func approve(c verbCall) error { return c.decide(egress.ApprovalApproved) }
func deny(c verbCall) error    { return c.decide(egress.ApprovalDenied) }

// decide rules on one approval, where the operator leaves that to whoever may
// execute in the allocation.
func (c verbCall) decide(to egress.ApprovalState) error {
	if len(c.args) != 1 {
		return &useError{"want one approval, by its id, the beginning of it, or HOST:PORT"}
	}
	if host, _ := c.plugin.options(); host.Approvals != ApprovalsExec {
		return fmt.Errorf("first uses are decided on the node, with nomad-driver-wardyn ctl: the plugin option approvals is %q", host.Approvals)
	}
	v := control.Ruling{To: to, Scope: control.Scope(c.flags["scope"]), By: byExec, Note: c.flags["note"]}
	if text, ok := c.flags["for"]; ok {
		d, err := time.ParseDuration(text)
		if err != nil || d <= 0 {
			return &useError{fmt.Sprintf("-for %q: want a time such as 30m", text)}
		}
		v.For = d
	}
	b, err := c.plugin.backend()
	if err != nil {
		return err
	}
	a, err := b.Control.Decide(c.task.state.Run, c.args[0], v)
	if err != nil {
		return err
	}
	if c.json {
		return writeJSON(c.out, a)
	}
	fmt.Fprintf(c.out, "%s: %s (id %s)\n", verdictWord(a), safeText(target(a)), a.ID.String()[:8])
	return nil
}
