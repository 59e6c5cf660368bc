package cli

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/wardyn/nomad-driver-wardyn/internal/cli/supervise"
	"github.com/wardyn/nomad-driver-wardyn/internal/jobfile"
)

// pretended is a backend whose tasks do what their config says:
//
//	print, warn  lines for the two streams
//	exit         the exit code
//	hang         run until stopped; "deaf" until killed
//	refuse       the text of a failed start
//	decide       the content of the decision file
type pretended struct {
	spec launchSpec
	root string

	mu     sync.Mutex
	dirs   map[string]string
	closed []bool
}

func (p *pretended) launch(_ context.Context, s launchSpec) (backend, error) {
	p.spec, p.root, p.dirs = s, filepath.Join(s.allocRoot, "alloc-id"), map[string]string{}
	data, _ := s.config["data_dir"].(string)
	return p, errors.Join(os.MkdirAll(p.root, 0o755), os.Mkdir(data, 0o700))
}

func (p *pretended) start(_ context.Context, t jobfile.Task, stdout, stderr io.Writer) (supervise.Process, error) {
	text := func(key string) string { s, _ := t.Config[key].(string); return s }
	if why := text("refuse"); why != "" {
		return nil, errors.New(why)
	}
	dir := filepath.Join(p.root, t.Name)
	p.mu.Lock()
	p.dirs[t.Name] = dir
	p.mu.Unlock()
	if d := text("decide"); d != "" {
		if err := errors.Join(os.MkdirAll(filepath.Join(dir, "wardyn"), 0o700),
			os.WriteFile(filepath.Join(dir, "wardyn", "decisions.jsonl"), []byte(d), 0o600)); err != nil {
			return nil, err
		}
	}
	code, _ := t.Config["exit"].(int64)
	proc := &pretendedProcess{deaf: text("hang") == "deaf", ended: make(chan int, 1)}
	io.WriteString(stdout, text("print"))
	io.WriteString(stderr, text("warn"))
	p.spec.out.event(t.Name, "Driver: %s", "as\x1b[1m pretended")
	if text("hang") == "" {
		proc.ended <- int(code)
	}
	return proc, nil
}

func (p *pretended) exec(_ context.Context, task string, argv []string, stdin io.Reader, stdout, stderr io.Writer) (int, error) {
	if argv[0] == "absent" {
		return 0, errors.New("absent: not found")
	}
	if stdin != nil {
		io.Copy(stdout, stdin)
	}
	fmt.Fprintf(stdout, "%s runs %q\nunfinished", task, argv)
	fmt.Fprintln(stderr, "warned")
	return len(argv), nil
}

// check exits with the code that is its name; "hang" is cut off, long before
// anything else that comes with its timeout.
func (p *pretended) check(ctx context.Context, task string, argv []string, timeout time.Duration) (int, string, error) {
	if argv[0] == "hang" {
		select {
		case <-ctx.Done():
		case <-time.After(timeout / 10):
		}
		return 0, "", errors.New("cut off")
	}
	code, _ := strconv.Atoi(argv[0])
	return code, "first\n" + strings.Join(argv, " ") + "\n", nil
}

func (p *pretended) known(task string) map[string]string {
	return map[string]string{"NOMAD_TASK_NAME": task, "NOMAD_ALLOC_ID": "the-alloc"}
}

func (p *pretended) signal(context.Context, string, string) error { return nil }

func (p *pretended) taskDir(task string) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.dirs[task]
}

func (p *pretended) allocDir() string { return p.root }

func (p *pretended) close(keep bool) error {
	p.closed = append(p.closed, keep)
	if keep {
		return nil
	}
	return os.RemoveAll(p.root)
}

type pretendedProcess struct {
	deaf  bool
	ended chan int
}

func (p *pretendedProcess) Wait(context.Context) (supervise.Exit, error) {
	return supervise.Exit{Code: <-p.ended}, nil
}

func (p *pretendedProcess) Stop(ctx context.Context) error {
	if p.deaf {
		<-ctx.Done()
		return ctx.Err()
	}
	p.ended <- 143
	return nil
}

func (p *pretendedProcess) Kill(context.Context) error {
	p.ended <- 137
	return nil
}

// call is one run over the pretended backend and what came of it.
type call struct {
	*pretended
	code           int
	err            error
	stdout, stderr string
	purged         map[string]any
	temp           string // stands for /tmp
	left           []string
}

// runCall runs a job file of testdata with flags before it and the command of
// -exec behind. An interrupt is sent each time stderr shows the next of stopAt.
func runCall(t *testing.T, file string, flags, argv []string, stopAt ...string) call {
	t.Helper()
	c := call{pretended: &pretended{}, temp: t.TempDir()}
	t.Setenv("TMPDIR", c.temp)
	var stdout bytes.Buffer
	stderr := &watched{wanted: stopAt, interrupts: make(chan os.Signal, len(stopAt))}
	e := testEnv(&stdout, nil)
	e.Stdin = strings.NewReader("given\n")
	e.Stderr, e.Interrupts = stderr, func() <-chan os.Signal { return stderr.interrupts }
	e.Purge = func(_ context.Context, config map[string]any, kept bool) error {
		c.purged = config
		return nil
	}
	var usage bytes.Buffer
	pe := e
	pe.Stderr = &usage
	args := append(flags[:len(flags):len(flags)], filepath.Join("testdata", file))
	if argv != nil {
		args = append(append(args, "--"), argv...)
	}
	o, code, ok := parseRun(pe, runCommand, args)
	if !ok {
		t.Fatalf("exit %d: %s", code, usage.String())
	}
	c.code, c.err = runJob(t.Context(), e, o, c.launch)
	c.stdout, c.stderr = stdout.String(), stderr.String()
	for _, left := range listed(t, c.temp) {
		c.left = append(c.left, strings.TrimPrefix(left, c.temp+"/"))
	}
	return c
}

// watched is a stream that sends an interrupt each time a wanted text has come.
type watched struct {
	mu         sync.Mutex
	b          bytes.Buffer
	wanted     []string
	interrupts chan os.Signal
}

func (w *watched) Write(b []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	n, _ := w.b.Write(b)
	if len(w.wanted) > 0 && w.shows(w.wanted[0]) {
		w.wanted = w.wanted[1:]
		w.interrupts <- syscall.SIGINT
	}
	return n, nil
}

// shows tells whether a text has come, or "all of: " several with | between them.
func (w *watched) shows(text string) bool {
	all, several := strings.CutPrefix(text, "all of: ")
	if !several {
		return strings.Contains(w.b.String(), text)
	}
	for part := range strings.SplitSeq(all, "|") {
		if !strings.Contains(w.b.String(), part) {
			return false
		}
	}
	return true
}

func (w *watched) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.b.String()
}

func listed(t *testing.T, dir string) []string {
	t.Helper()
	var all []string
	err := filepath.WalkDir(dir, func(path string, _ os.DirEntry, err error) error {
		if path != dir {
			all = append(all, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

var (
	update  = flag.Bool("update", false, "write the golden files anew")
	runName = regexp.MustCompile(`wardyn-run-\d+`)
)

func golden(t *testing.T, path, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s differs; got:\n%s", path, got)
	}
}

// TestRunOutput holds what a person sees to golden files.
func TestRunOutput(t *testing.T) {
	for name, c := range map[string]struct {
		file   string
		args   []string
		argv   []string
		stopAt []string
		code   int
		err    string
	}{
		"one":        {file: "one.nomad.hcl", code: 3},
		"vars":       {file: "one.nomad.hcl", args: []string{"-var", "code=256"}, code: 1},
		"restart":    {file: "restart.nomad.hcl", code: 4},
		"lifecycle":  {file: "lifecycle.nomad.hcl", code: 0},
		"refused":    {file: "refused.nomad.hcl", code: 1, err: "testdata/refused.nomad.hcl:8: task \"t\": artifact is not supported"},
		"no-file":    {file: "none.nomad.hcl", code: 1, err: "none.nomad.hcl"},
		"start":      {file: "mistakes.nomad.hcl", code: 1},
		"interrupt":  {file: "hang.nomad.hcl", stopAt: []string{"* Started"}, code: 143},
		"kill":       {file: "hang.nomad.hcl", args: []string{"-var", "how=deaf"}, stopAt: []string{"* Started", "* Killing\n"}, code: 137},
		"decisions":  {file: "decide.nomad.hcl", args: []string{"-decisions"}, code: 0},
		"raw":        {file: "decide.nomad.hcl", args: []string{"-decisions", "-json"}, code: 0},
		"groups":     {file: "groups.nomad.hcl", code: 1, err: "the job has the groups a, b; run takes one of them: -group NAME"},
		"group":      {file: "groups.nomad.hcl", args: []string{"-group", "b"}, code: 0},
		"no-group":   {file: "groups.nomad.hcl", args: []string{"-group", "c"}, code: 1, err: "-group c: the job has a, b"},
		"exec":       {file: "hang.nomad.hcl", args: []string{"-exec", "t"}, argv: []string{"sh", "-c"}, code: 2},
		"exec-input": {file: "hang.nomad.hcl", args: []string{"-i", "-exec", "t"}, argv: []string{"cat"}, code: 1},
		"exec-fails": {file: "hang.nomad.hcl", args: []string{"-exec", "t"}, argv: []string{"absent"}, code: 1},
		"exec-task":  {file: "hang.nomad.hcl", args: []string{"-exec", "u"}, argv: []string{"x"}, code: 1, err: `-exec u: group "g" has no such task`},
		"exec-never": {file: "mistakes.nomad.hcl", args: []string{"-exec", "t"}, argv: []string{"x"}, code: 1},
	} {
		t.Run(name, func(t *testing.T) {
			got := runCall(t, c.file, c.args, c.argv, c.stopAt...)
			if got.code != c.code || (got.err == nil) != (c.err == "") || got.err != nil && !strings.Contains(got.err.Error(), c.err) {
				t.Errorf("exit %d, error %v; want %d, %q", got.code, got.err, c.code, c.err)
			}
			if len(got.left) != 0 {
				t.Errorf("left behind: %v", got.left)
			}
			text := fmt.Sprintf("exit %d\n--- stdout\n%s--- stderr\n%s", got.code, got.stdout, got.stderr)
			text = strings.ReplaceAll(text, got.temp, "/tmp")
			golden(t, filepath.Join("testdata", "run", name+".golden"), runName.ReplaceAllString(text, "wardyn-run-N"))
		})
	}
}

// TestK3OwnDataDir: a run has a data dir of its own that is purged and removed,
// also when the plugin's options name that of a live agent.
func TestK3OwnDataDir(t *testing.T) {
	own := runCall(t, "one.nomad.hcl", nil, nil)
	dir, _ := own.purged["data_dir"].(string)
	if !strings.HasPrefix(dir, own.temp+"/") || own.spec.config["data_dir"] != dir || own.spec.allocRoot == dir {
		t.Errorf("own data dir: plugin got %v, purged %v", own.spec.config, own.purged)
	}
	config := filepath.Join(t.TempDir(), "plugin.hcl")
	named := filepath.Join(t.TempDir(), "data")
	if err := os.WriteFile(config, []byte("data_dir = \""+named+"\"\nslots = 3\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	given := runCall(t, "one.nomad.hcl", []string{"-plugin-config", config}, nil)
	dir, _ = given.purged["data_dir"].(string)
	if !strings.HasPrefix(dir, given.temp+"/") || given.spec.config["data_dir"] != dir || given.spec.config["slots"] != 3 || !strings.HasPrefix(given.spec.allocRoot, given.temp+"/") {
		t.Errorf("named data dir: plugin got %v, purged %v", given.spec.config, given.purged)
	}
	if len(own.left)+len(given.left) != 0 {
		t.Errorf("left behind: %v %v", own.left, given.left)
	}
}

// TestKeep: the allocation's directory alone stays, where the message says.
func TestKeep(t *testing.T) {
	c := runCall(t, "decide.nomad.hcl", []string{"-keep"}, nil)
	dir := c.allocDir()
	if !strings.Contains(c.stderr, "* Kept: "+dir+"\n") || len(c.closed) != 1 || !c.closed[0] {
		t.Errorf("closed %v, stderr:\n%s", c.closed, c.stderr)
	}
	if _, err := os.Stat(filepath.Join(dir, "t", "wardyn", "decisions.jsonl")); err != nil {
		t.Error(err)
	}
	for _, left := range c.left {
		if strings.Contains(left, "/data") {
			t.Errorf("left behind: %s", left)
		}
	}
	root := t.TempDir()
	if c := runCall(t, "one.nomad.hcl", []string{"-alloc-dir", root}, nil); c.spec.allocRoot != root || len(listed(t, root))+len(c.left) != 0 {
		t.Errorf("-alloc-dir: %s, left %v and %v", c.spec.allocRoot, listed(t, root), c.left)
	}
}

// TestInterruptedLaunch: an interrupt while the plugin starts ends the run
// before any task.
func TestInterruptedLaunch(t *testing.T) {
	var stdout, stderr bytes.Buffer
	e := testEnv(&stdout, &stderr)
	interrupts := make(chan os.Signal, 1)
	e.Interrupts = func() <-chan os.Signal { return interrupts }
	t.Setenv("TMPDIR", t.TempDir())
	p := &pretended{}
	for name, launched := range map[string]bool{"it gives up": false, "it comes too late": true} {
		interrupts <- syscall.SIGTERM
		code, err := runJob(t.Context(), e, runOptions{job: "testdata/one.nomad.hcl"}, func(ctx context.Context, s launchSpec) (backend, error) {
			<-ctx.Done()
			if launched {
				return p.launch(ctx, s)
			}
			return nil, ctx.Err()
		})
		if code != 1 || err == nil || err.Error() != "interrupted before anything was started" || stdout.Len() != 0 {
			t.Errorf("%s: exit %d, %v, printed %q", name, code, err, stdout.String())
		}
	}
	if len(p.closed) != 1 || p.closed[0] {
		t.Errorf("closed: %v", p.closed)
	}
}

// gone is a stream whose reader has gone after some bytes.
type gone struct{ left int }

func (g *gone) Write(b []byte) (int, error) {
	if g.left -= len(b); g.left < 0 {
		return 0, syscall.EPIPE
	}
	return len(b), nil
}

// TestReaderGone: a reader that goes away stops the run as an interrupt does,
// and each further line that is not taken changes nothing.
func TestReaderGone(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	for name, streams := range map[string][2]io.Writer{
		"stdout":  {&gone{}, &watched{}},
		"stderr":  {&watched{}, &gone{left: len("t * Driver: as pretended\n")}},
		"at once": {&gone{}, &gone{}},
	} {
		e := testEnv(nil, nil)
		e.Stdout, e.Stderr = streams[0], streams[1]
		pipe := make(chan os.Signal, 3) // what the system adds to failed writes
		pipe <- syscall.SIGPIPE
		pipe <- syscall.SIGPIPE
		e.Interrupts = func() <-chan os.Signal { return pipe }
		p := &pretended{}
		code, err := runJob(t.Context(), e, runOptions{job: "testdata/talk.nomad.hcl"}, p.launch)
		if w, ok := streams[1].(*watched); ok && strings.Contains(w.String(), "once more to kill") {
			t.Errorf("%s: a signal of a pipe was taken for an interrupt", name)
		}
		if err != nil || code != 143 || len(p.closed) != 1 {
			t.Errorf("%s: exit %d, %v, closed %v", name, code, err, p.closed)
		}
	}
}

// TestReaderGoneAtOnce: one that has gone before anything was to be stopped is
// not forgotten.
func TestReaderGoneAtOnce(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	job := filepath.Join(t.TempDir(), "noted.nomad.hcl")
	src, err := os.ReadFile("testdata/talk.nomad.hcl")
	if err == nil {
		err = os.WriteFile(job, bytes.Replace(src, []byte("{\n"), []byte("{\n constraint {}\n"), 1), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	e := testEnv(nil, nil)
	e.Stdout, e.Stderr = &watched{}, &gone{}
	e.Interrupts = func() <-chan os.Signal { return nil }
	p := &pretended{}
	if code, err := runJob(t.Context(), e, runOptions{job: job}, p.launch); code != exitFailed || err == nil || !strings.Contains(err.Error(), "interrupted before") {
		t.Errorf("exit %d, %v", code, err)
	}
}

func TestRunArguments(t *testing.T) {
	for name, c := range map[string]struct {
		args []string
		err  string
		want runOptions
	}{
		"nothing":           {nil, "which job file", runOptions{}},
		"two files":         {[]string{"a", "b"}, `"b" is too much`, runOptions{}},
		"exec without argv": {[]string{"-exec", "t", "a"}, "-exec needs a command", runOptions{}},
		"argv without exec": {[]string{"a", "--", "x"}, "needs -exec TASK", runOptions{}},
		"input alone":       {[]string{"-i", "a"}, "-i goes with -exec", runOptions{}},
		"input twice":       {[]string{"-i", "-exec", "t", "-payload", "-", "a", "--", "x"}, "-payload -", runOptions{}},
		"json alone":        {[]string{"-json", "a"}, "-json goes with -decisions", runOptions{}},
		"log level":         {[]string{"-log-level", "loud", "a"}, `-log-level "loud": want one of trace, debug`, runOptions{}},
		"bad var":           {[]string{"-var", "x", "a"}, "want NAME=VALUE", runOptions{}},
		"unknown flag":      {[]string{"a", "-x"}, "not defined: -x", runOptions{}},
		"both sides":        {[]string{"-keep", "a", "-var", "x=1", "-var", "y=a=b"}, "", runOptions{job: "a", keep: true, values: valueFlags{given: varFlag{"x": "1", "y": "a=b"}}}},
		"exec":              {[]string{"-exec", "t", "a", "--", "sh", "--", "-c"}, "", runOptions{job: "a", exec: "t", argv: []string{"sh", "--", "-c"}}},
	} {
		var stdout, stderr bytes.Buffer
		o, code, ok := parseRun(testEnv(&stdout, &stderr), runCommand, c.args)
		if c.err != "" {
			if ok || code != exitUsage || !strings.Contains(stderr.String(), c.err) {
				t.Errorf("%s: exit %d, %s", name, code, stderr.String())
			}
			continue
		}
		if !ok || o.job != c.want.job || o.keep != c.want.keep || o.exec != c.want.exec ||
			fmt.Sprint(o.argv) != fmt.Sprint(c.want.argv) || len(o.values.given) != len(c.want.values.given) || o.values.given["y"] != c.want.values.given["y"] {
			t.Errorf("%s: %+v, want %+v", name, o, c.want)
		}
	}
}

func TestExitCode(t *testing.T) {
	exit := func(code int) supervise.Exit { return supervise.Exit{Code: code} }
	for name, c := range map[string]struct {
		results []supervise.Result
		want    int
	}{
		"none":                       {nil, 0},
		"all well":                   {[]supervise.Result{{Exit: exit(0)}, {Exit: exit(0)}}, 0},
		"the first that is not zero": {[]supervise.Result{{Exit: exit(0)}, {Exit: exit(3)}, {Exit: exit(4)}}, 3},
		"victims do not count":       {[]supervise.Result{{Exit: exit(143), Victim: true}, {Exit: exit(4)}}, 4},
		"a start that failed":        {[]supervise.Result{{Err: errors.New("x")}}, 1},
		"an error beside zero":       {[]supervise.Result{{Exit: supervise.Exit{Err: "lost"}}}, 1},
		"a signal beside zero":       {[]supervise.Result{{Exit: supervise.Exit{Signal: 9}}}, 1},
		"what a shell can't show":    {[]supervise.Result{{Exit: exit(256)}}, 1},
		"more than a byte":           {[]supervise.Result{{Exit: exit(259)}}, 3},
		"the largest that fits":      {[]supervise.Result{{Exit: exit(255)}}, 255},
	} {
		if got := exitCode(c.results); got != c.want {
			t.Errorf("%s: %d, want %d", name, got, c.want)
		}
	}
}
