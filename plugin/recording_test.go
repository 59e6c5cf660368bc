package plugin

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/wardyn/nomad-driver-wardyn/internal/cast"
	"github.com/wardyn/nomad-driver-wardyn/plugin/host"
	"github.com/wardyn/nomad-driver-wardyn/runner"
	"github.com/wardyn/nomad-driver-wardyn/runner/runnertest"
)

// recordedArgs is a task's config with record = true.
func recordedArgs(argv ...string) map[string]any {
	c := args(argv...)
	c["record"] = true
	return c
}

// casts are the recordings of a task.
func casts(t *testing.T, tc host.TaskConfig) []cast.Recording {
	t.Helper()
	list, err := cast.List(filepath.Join(tc.AllocDir, tc.Name, "wardyn"), RunID(TaskID(tc.ID)).String())
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// K36: the main process and a terminal in the task are recorded outside of the
// sandbox, with sizes, ends and without secrets, and people can read that.
func TestK36Recordings(t *testing.T) {
	b := newBench(t, benchOptions{fake: runnertest.Options{Programs: map[string]runnertest.Program{
		"talker": func(ctx context.Context, p *runnertest.Process) int {
			fmt.Fprintln(p.Stdout, "main says planted-secret-1")
			<-ctx.Done()
			return 3
		},
	}}})
	c := recordedArgs("talker")
	c["egress"] = []any{map[string]any{"allow": []any{"api.example"}}}
	c["inject"] = map[string]any{"k": map[string]any{"host": "api.example", "header": "X-Key", "secret_file": "secrets/key"}}
	tc := b.task("web", c)
	if err := os.WriteFile(filepath.Join(tc.AllocDir, "web/secrets/key"), []byte("planted-secret-1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, _, err := b.host.StartTask(b.ctx(), tc); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	resize := make(chan host.TerminalSize, 1)
	resize <- host.TerminalSize{Height: 30, Width: 100}
	for _, tty := range []bool{true, false} {
		r, err := b.host.ExecTaskStreaming(b.ctx(), host.ExecRequest{
			TaskID: tc.ID, Command: []string{"sh", "-c", "echo exec says planted-secret-1; exit 5"}, TTY: tty, Stdin: io.NopCloser(strings.NewReader("")), Stdout: &out, Stderr: &out, Resize: resize,
		})
		if err != nil || r.ExitCode != 5 {
			t.Fatalf("%+v, %v", r, err)
		}
	}
	b.eventually("both are recorded", func() bool {
		text, _, _ := b.ask(tc.ID, "recording", "cat")
		return len(casts(t, tc)) == 2 && strings.Contains(text, "main says")
	})
	list := casts(t, tc)
	exec := list[1]
	if list[0].Of == cast.OfExec {
		exec = list[0]
	}
	if exec.End != "exit 5" || exec.Title != "j/web "+tc.AllocID[:8]+": sh -c echo exec says <secret-hidden>; exit 5" {
		t.Errorf("%+v", exec)
	}
	short := exec.Name[len(RunID(TaskID(tc.ID)).String())+1:]
	for words, want := range map[string]string{
		"recording": short, "recording list -json": `"end": "exit 5"`, "recording cat": "main says <secret-hidden>",
		"recording cat " + short: "exec says <secret-hidden>\n[exit 5]", "recording export " + short: `"width":100,"height":30`,
		"recording export main -part 1": `"version":2`,
	} {
		if text, errs, code := b.ask(tc.ID, strings.Fields(words)...); code != 0 || !strings.Contains(text, want) || strings.Contains(text, "planted") {
			t.Errorf("%q: code %d, %q, %q", words, code, text, errs)
		}
	}
	if _, errs, code := b.ask(tc.ID, "recording", "cat", "-part", "7"); code != 1 || !strings.Contains(errs, "parts [1]") {
		t.Errorf("code %d, %q", code, errs)
	}
	b.destroy(tc.ID)
	b.eventually("the exit is told", func() bool { return strings.HasPrefix(casts(t, tc)[0].End+casts(t, tc)[1].End, "exit ") })
}

// A recording that cannot be made stops nothing, and is told of.
func TestK36NoRecordingStopsNothing(t *testing.T) {
	b := newBench(t, benchOptions{})
	tc := b.task("web", recordedArgs("idle"))
	dir := filepath.Join(tc.AllocDir, "web/wardyn")
	name := RunID(TaskID(tc.ID)).String() + cast.Suffix
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(dir, name), 0o700); err != nil { // in the file's place
		t.Fatal(err)
	}
	if _, _, err := b.host.StartTask(b.ctx(), tc); err != nil {
		t.Fatal(err)
	}
	b.eventually("an event says so", func() bool {
		return strings.Contains(fmt.Sprint(b.said(tc.ID)), "Not everything is recorded: ")
	})
	b.destroy(tc.ID)
}

func TestK35RecordCeiling(t *testing.T) {
	for _, bad := range []map[string]any{{"record": "maybe"}, {"record_exec": "some"}, {"recording_mb": -1}} {
		_, err := hostConfig(Config{RecordHostConfig: RecordHostConfig{
			Record: fmt.Sprint(bad["record"]), RecordExec: fmt.Sprint(bad["record_exec"]), RecordingMB: -1,
		}})
		if err == nil {
			t.Errorf("%v is taken", bad)
		}
	}
	f := &faults{}
	var a ask
	if a.readRecord(RecordTaskConfig{Record: true}, RecordRules{Refuse: true}, f); len(f.list) != 1 {
		t.Error("a recording that the operator refuses is made")
	}
	if a.readRecord(RecordTaskConfig{}, RecordRules{Always: true}, f); !a.Record {
		t.Error("a task is not recorded although the operator says so")
	}
	// K20, K36: what needs a proxy or a command is refused without one.
	for name, c := range map[string]struct {
		a    ask
		r    RecordRules
		want int
	}{
		"allowed": {}, "no network": {a: ask{limitAsk: limitAsk{NoNetwork: true}}, want: 1}, "idle": {a: ask{Idle: true}, want: 1},
		"refused": {r: RecordRules{Refuse: true}, want: 1},
	} {
		f := &faults{}
		if c.a.readRecord(RecordTaskConfig{RecordInside: true}, c.r, f); len(f.list) != c.want {
			t.Errorf("record_inside, %s: %v", name, f.list)
		}
	}
	for _, c := range []struct {
		exec                string
		recorded, tty, want bool
	}{
		{"", true, true, true}, {"", true, false, false}, {"", false, true, false},
		{"off", true, true, false}, {"terminal", false, true, true}, {"terminal", true, false, false}, {"all", false, false, true},
	} {
		if got := (RecordRules{Exec: c.exec}).wantsExec(c.recorded, c.tty); got != c.want {
			t.Errorf("%+v: %v", c, got)
		}
	}
}

// A session that is recorded is as it was for whoever uses it, and its sizes
// and its end are kept.
func TestK36SessionIsTapped(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "wardyn")
	rec, err := cast.Open(cast.Options{Dir: dir, Name: "x", Of: cast.OfExec, Terminal: true})
	if err != nil {
		t.Fatal(err)
	}
	var sizes []string
	s := &runner.ExecSession{
		Stdout: strings.NewReader("out"), Stderr: strings.NewReader(""),
		Resize: func(cols, rows uint16) error { sizes = append(sizes, fmt.Sprint(cols, "x", rows)); return nil },
		Wait:   func() (int, error) { return 4, nil },
	}
	(&execRecording{rec: rec, tell: func(err error) { t.Error(err) }}).tap(s)
	out, err := io.ReadAll(s.Stdout)
	if err != nil || string(out) != "out" || s.Resize(90, 30) != nil || len(sizes) != 1 {
		t.Errorf("%q, %v, sizes %v", out, err, sizes)
	}
	if code, err := s.Wait(); code != 4 || err != nil {
		t.Errorf("code %d, %v", code, err)
	}
	var got []string
	err = cast.OpenParts(dir, "x", func(_ int, r io.Reader) error {
		_, err := cast.Read(r, func(e cast.Event) error { got = append(got, e.Kind+e.Data); return nil })
		return err
	})
	if want := []string{"oout", "r90x30", "mexit 4"}; err != nil || !slices.Equal(got, want) {
		t.Errorf("recorded %q, %v", got, err)
	}
}

// printer is a task that prints what comes, is recorded, and has a credential's
// value in a file that write changes.
func printer(t *testing.T) (b *bench, tc host.TaskConfig, next chan<- string, write func(secret string)) {
	t.Helper()
	lines := make(chan string)
	b = newBench(t, benchOptions{fake: runnertest.Options{Programs: map[string]runnertest.Program{"count": counting(lines)}}})
	c := recordedArgs("count")
	c["egress"] = []any{map[string]any{"allow": []any{"api.example"}}}
	c["inject"] = map[string]any{"k": map[string]any{"host": "api.example", "header": "X-Key", "secret_file": "secrets/key"}}
	tc = b.task("web", c)
	write = func(secret string) {
		if err := os.WriteFile(filepath.Join(tc.AllocDir, "web/secrets/key"), []byte(secret), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("planted-secret-1")
	if _, _, err := b.host.StartTask(b.ctx(), tc); err != nil {
		t.Fatal(err)
	}
	return b, tc, lines, write
}

// readCredential reads the task's credential as its sidecar does.
func (b *bench) readCredential(id string) {
	b.t.Helper()
	own, _ := b.plugin().tasks.get(TaskID(id))
	if _, err := own.credentials[0].Value(); err != nil {
		b.t.Fatal(err)
	}
}

// recordsNoSecret waits until the word printed is in the task's recording, and looks
// for secrets in that.
func (b *bench) recordsNoSecret(id string) {
	b.t.Helper()
	text := ""
	b.eventually("the line is recorded", func() bool {
		text, _, _ = b.ask(id, "recording", "cat")
		return strings.Contains(text, "printed")
	})
	if strings.Contains(text, "planted") {
		b.t.Errorf("recorded: %s", text)
	}
}

// I3, K14: a credential's value is hidden in what a parked task prints once it
// runs again, also by a keeper that has never been told of it.
func TestI3SecretsOfBeforeTheResumeAreHidden(t *testing.T) {
	b, tc, next, write := printer(t)
	write("planted-secret-2")
	b.readCredential(tc.ID)
	if out, errs, code := b.ask(tc.ID, "suspend", "-cold"); code != 0 {
		t.Fatalf("%q %q %d", out, errs, code)
	}
	write("planted-secret-3")
	if out, errs, code := b.ask(tc.ID, "resume"); code != 0 { // the fake makes a recorder of its own each time
		t.Fatalf("%q %q %d", out, errs, code)
	}
	next <- "planted-secret-1, planted-secret-2, planted-secret-3, printed"
	b.recordsNoSecret(tc.ID)
	next <- "end"
	b.wait(tc.ID)
}

// I3: so is one that is read while the output is being taken up, when there is no
// keeper yet that could be told of it.
func TestI3SecretsOfATakingUpAreHidden(t *testing.T) {
	b, tc, next, write := printer(t)
	slow := make(chan struct{})
	b.outputs.mu.Lock()
	b.outputs.slow = slow
	b.outputs.mu.Unlock()
	b.outputs.die()
	b.eventually("it is being taken up", func() bool { return b.outputs.resuming() > 0 })
	write("planted-secret-2")
	b.readCredential(tc.ID)
	write("planted-secret-3")
	close(slow)
	b.eventually("it is taken up again", func() bool { return b.outputs.resumed() > 0 })
	next <- "planted-secret-2, planted-secret-3, printed"
	b.recordsNoSecret(tc.ID)
	next <- "end"
	b.wait(tc.ID)
}

// K36: what one message cannot hold is left out from the oldest on.
func TestK36HiddenSecretsFitIntoAMessage(t *testing.T) {
	large := strings.Repeat("x", maxHidden/2)
	got := withinMessage([]string{"b", "a", "b"}, []string{"oldest" + large, "older" + large, "a", "latest"})
	if !slices.Equal(got, []string{"a", "b", "latest", "older" + large}) {
		t.Errorf("%d secrets, the first are %.20q", len(got), got)
	}
}
