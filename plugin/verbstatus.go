package plugin

import (
	"fmt"
	"strings"
	"time"
)

// statusView is what status shows.
type statusView struct {
	Sandbox  string    `json:"sandbox"`
	Run      string    `json:"run_id"`
	Session  string    `json:"session"`
	State    string    `json:"state"`
	Class    string    `json:"class"`
	Image    string    `json:"image"`
	Started  time.Time `json:"started"`
	Allow    []string  `json:"allow"`
	Deny     []string  `json:"deny,omitempty"`
	Methods  []string  `json:"methods,omitempty"`
	AllowAll bool      `json:"allow_all,omitempty"`
	Allowed  uint64    `json:"requests_allowed"`
	Denied   uint64    `json:"requests_denied"`
}

// showStatus shows what a task runs as, and what its proxy has decided.
func showStatus(c verbCall) error {
	s := c.task.state
	v := statusView{
		Sandbox: s.Ref, Run: s.Run.String(), Session: s.Session, State: c.stateWord(), Class: string(s.Class),
		Image: s.Image, Started: s.Started, Allow: s.Allow, Deny: s.Deny, Methods: s.Methods, AllowAll: s.AllowAll,
	}
	if b, err := c.plugin.backend(); err == nil {
		sum, _ := b.Control.Summary(s.Run)
		v.Allowed, v.Denied = sum.Allowed, sum.Denied
	}
	if c.json {
		return writeJSON(c.out, v)
	}
	allow := strings.Join(v.Allow, ", ")
	switch {
	case v.AllowAll:
		allow = "everything that is not denied"
	case allow == "":
		allow = "nothing"
	}
	for _, line := range [][2]string{
		{"sandbox", v.Sandbox}, {"session", v.Session}, {"state", v.State}, {"class", v.Class}, {"image", v.Image},
		{"started", v.Started.Format(time.RFC3339)}, {"allow", allow}, {"deny", strings.Join(v.Deny, ", ")},
		{"methods", strings.Join(v.Methods, ", ")}, {"requests", fmt.Sprintf("%d allowed, %d denied", v.Allowed, v.Denied)},
	} {
		if line[1] != "" {
			fmt.Fprintf(c.out, "%-8s %s\n", line[0], line[1])
		}
	}
	return nil
}

// stateWord is the engine's word on the sandbox, or that there is none.
func (c verbCall) stateWord() string {
	if _, ended := c.task.exit(); ended {
		return "exited"
	}
	if c.task.settingUp() {
		return "setup"
	}
	if word := c.task.parking.word(); word != "" {
		return string(word)
	}
	b, err := c.plugin.backend()
	if err != nil {
		return "unknown: " + err.Error()
	}
	h, err := b.Driver.Inspect(c.ctx, c.task.state.Ref)
	if err != nil {
		return "unknown: " + err.Error()
	}
	return string(h.State)
}
