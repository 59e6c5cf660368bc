package plugin

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/wardyn/nomad-driver-wardyn/internal/cast"
	"github.com/wardyn/nomad-driver-wardyn/internal/control"
	"github.com/wardyn/nomad-driver-wardyn/runner"
)

const (
	// maxHidden bounds the secrets that are handed to the keeper, in bytes: they
	// travel in one message.
	maxHidden = 48 << 10
	// recordingEvery is how often a recording is asked about.
	recordingEvery = 30 * time.Second
)

// record has the task's output recorded, if it is to be.
func (p *Plugin) record(b *Backend, t *task) {
	secrets := t.control().SecretValues()
	hideWhenRead(b, t)
	host, _ := p.options()
	if t.state.Reported {
		t.reported = &control.Reported{Title: recordingTitle(t, ""), Limit: host.Record.Limit}
	}
	if !t.state.Record {
		return
	}
	if n := len(strings.Join(secrets, "")); n > maxHidden {
		p.unrecorded(t, fmt.Sprintf("its secrets have %d bytes, and %d can be hidden in a recording", n, maxHidden))
		return
	}
	t.output.Record = &cast.Options{
		Dir: t.records, Name: t.state.Run.String(), Title: recordingTitle(t, ""), Of: cast.OfMain,
		Terminal: t.state.TTY, Limit: host.Record.Limit, Secrets: secrets,
	}
	t.output.Secrets = t.secretsNow
}

// hideWhenRead keeps secrets that change while the task runs out of recordings
// that are being made: a value is hidden before anybody is given it.
func hideWhenRead(b *Backend, t *task) {
	for i, c := range t.credentials {
		t.credentials[i].Read = func() (string, error) {
			v, err := c.Read()
			if err != nil {
				return v, err
			}
			secret := strings.TrimSpace(v)
			t.execs.hide(secret)
			if t.output.Record == nil {
				return v, nil
			}
			ctx, cancel := context.WithTimeout(t.ctx, recoverTimeout)
			defer cancel()
			if err := b.Outputs.HideRecorded(ctx, t.output.ID, secret); err != nil {
				return "", fmt.Errorf("hide it in the task's recording: %w", err)
			}
			return v, nil
		}
	}
}

// secretsNow are what a recording of the task is not to show now: what is secret,
// and what was while it ran.
func (t *task) secretsNow() []string {
	known := slices.Concat(t.output.Record.Secrets, t.control().SecretValues())
	return withinMessage(known, t.execs.secrets())
}

// withinMessage is secrets, and of those that were such before the latest, as many
// as fit into a message beside them. Neither has any twice.
func withinMessage(secrets, before []string) []string {
	slices.Sort(secrets)
	out := slices.Compact(secrets)
	room := maxHidden - len(strings.Join(out, ""))
	for _, s := range slices.Backward(before) {
		if slices.Contains(out, s) {
			continue
		}
		if room -= len(s); room < 0 {
			break
		}
		out = append(out, s)
	}
	return out
}

// recordingTitle says of what a recording is.
func recordingTitle(t *task, command string) string {
	alloc := t.config.GetAllocId()
	title := fmt.Sprintf("%s/%s %s", t.config.GetJobId(), t.config.GetName(), alloc[:min(8, len(alloc))])
	if command != "" {
		title += ": " + command
	}
	return title
}

// unrecorded tells that something of a task is not recorded. The task goes on.
func (p *Plugin) unrecorded(t *task, why string) {
	p.taskLog(t).Warn("not everything is recorded", "reason", why)
	p.events.emit(t.config, "Not everything is recorded: "+safeText(why))
}

// keepRecording tells, once, when a task's output is not recorded as it should be.
func (p *Plugin) keepRecording(b *Backend, t *task) {
	if t.output.Record == nil {
		return
	}
	every := time.NewTicker(recordingEvery)
	defer every.Stop()
	for {
		ctx, cancel := context.WithTimeout(t.ctx, askTimeout)
		st, err := b.Outputs.Status(ctx, t.output.ID)
		cancel()
		if err == nil && st.Unrecorded != "" {
			t.unrecorded.Do(func() { p.unrecorded(t, st.Unrecorded) })
			return
		}
		select {
		case <-every.C:
		case <-t.done:
			return
		case <-t.ctx.Done():
			return
		}
	}
}

// endRecording adds to the task's recording how the task ended.
func (p *Plugin) endRecording(b *Backend, t *task, o outcome) {
	if t.output.Record == nil {
		return
	}
	ctx, cancel := context.WithTimeout(t.ctx, askTimeout)
	defer cancel()
	st, err := b.Outputs.EndRecording(ctx, t.output, exitMarker(o))
	switch {
	case err != nil && t.ctx.Err() == nil:
		t.unrecorded.Do(func() { p.unrecorded(t, "the recording's end: "+err.Error()) })
	case st.Unrecorded != "":
		t.unrecorded.Do(func() { p.unrecorded(t, st.Unrecorded) })
	}
}

// exitMarker is an outcome as a recording ends with it.
func exitMarker(o outcome) string {
	m := fmt.Sprintf("%s%d", cast.Exit, o.Code)
	if o.Signal != 0 {
		m += fmt.Sprintf(", signal %d", o.Signal)
	}
	if o.OOMKilled {
		m += ", out of memory"
	}
	if o.Err != "" {
		m += ": " + o.Err
	}
	return m
}

// wantsExec reports whether a command in a task is to be recorded.
func (r RecordRules) wantsExec(recorded, terminal bool) bool {
	switch r.Exec {
	case execOff:
		return false
	case execTerminal:
		return terminal
	case execAll:
		return true
	}
	return recorded && terminal
}

// recordExec has a command's session recorded, if it is to be; end ends the
// recording when nobody waits for the command any more.
func (p *Plugin) recordExec(t *task, spec runner.ExecSpec, s *runner.ExecSession) (end func()) {
	host, _ := p.options()
	if !host.Record.wantsExec(t.state.Record, spec.TTY) {
		return func() {}
	}
	rec, err := t.execs.open(cast.Options{
		Dir: t.records, Name: t.state.Run.String() + execMark, Title: recordingTitle(t, strings.Join(spec.Argv, " ")), Of: cast.OfExec,
		Terminal: spec.TTY, Width: int(spec.Cols), Height: int(spec.Rows), Limit: host.Record.Limit, Secrets: t.control().SecretValues(),
	})
	if err != nil {
		p.unrecorded(t, "a command in the task: "+err.Error())
		return func() {}
	}
	x := &execRecording{rec: rec, tell: func(err error) { p.unrecorded(t, "a command in the task: "+err.Error()) }}
	x.tap(s)
	return func() {
		x.note(rec.Close(cast.Exit + "unknown: whoever ran it has left"))
		t.execs.ended(rec)
	}
}
