package plugin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"unicode/utf16"

	"github.com/wardyn/nomad-driver-wardyn/internal/control"
)

// verbCommand is the command that this plugin answers itself, on the host side:
//
//	nomad alloc exec ALLOC wardyn VERB
//
// Nomad's permission to execute in an allocation is the permission to use it,
// and the sandbox cannot reach it. An image's own program of that name is
// reached by its path.
const verbCommand = "wardyn"

// verb is one word of it.
type verb struct {
	name, args, summary string
	run                 func(c verbCall) error
}

// verbCall is one use of a verb.
type verbCall struct {
	plugin *Plugin
	task   *task
	ctx    context.Context
	args   []string // without flags
	json   bool
	all    bool
	cold   bool
	flags  map[string]string // those with a value
	most   int               // how many lines are wanted
	out    io.Writer
}

func verbs() []verb {
	return []verb{
		{"status", "", "what the sandbox is, its class and its policy", showStatus},
		{"decisions", "[-n N]", "the latest decisions about its requests", showDecisions},
		{"explain", "[HOST[:PORT]]", "what holds for the task and who decided it; of a host: what would become of a request", showExplanation},
		{"pending", "[-all]", "first uses that wait for approval", showPending},
		{"approve", "ID [-for 1h]", "let a first use pass; -scope session or attempt, -note TEXT", approve},
		{"deny", "ID", "refuse it for the session", deny},
		{"revoke", "ID", "take an approval back; what it let through is cut", deny},
		{"shell", "", "an interactive shell, with -i -t; the same one again where the image has tmux", openShell},
		{"suspend", "[-cold]", "freeze every process of the sandbox; -cold stops them and frees the slot", suspend},
		{"resume", "", "let them go on; after -cold the command starts again", resume},
		{"snapshot", "NAME", "make an image of the sandbox's files, for jobs to name", snapshot},
		{"recording", "[list | cat | export]", "what was recorded; cat and export take NAME and -part N, list -all earlier runs", recordings},
		{"help", "", "this text", showHelp},
	}
}

// answerVerb runs one verb and tells its outcome as a command would: 0, 1 for a
// failure and 2 for a wrong use.
func (p *Plugin) answerVerb(out *replies, t *task, argv []string) error {
	code, msg := 0, ""
	ctx, cancel := context.WithTimeout(out.stream.Context(), askTimeout)
	defer cancel()
	c := verbCall{plugin: p, task: t, ctx: ctx, most: 20, out: out.stdout()}
	v, err := c.parse(argv)
	if err == nil {
		err = v.run(c)
	}
	var use *useError
	switch {
	case errors.As(err, &use):
		code, msg = 2, use.Error()
	case err != nil:
		code, msg = 1, err.Error()
	}
	if msg != "" {
		if _, err := io.WriteString(out.stderr(), "wardyn: "+msg+"\n"); err != nil {
			return err
		}
	}
	if err := errors.Join(out.stdout().Close(), out.stderr().Close()); err != nil {
		return err
	}
	return out.exit(code)
}

// useError is a verb used wrongly.
type useError struct{ text string }

func (e *useError) Error() string { return e.text }

// valueFlags are those that take any text.
var valueFlags = []string{"for", "scope", "note", "part"}

// parse reads a verb, its flags and its arguments, in any order.
func (c *verbCall) parse(argv []string) (verb, error) {
	if len(argv) == 0 {
		argv = []string{"help"}
	}
	name, rest := argv[0], argv[1:]
	for len(rest) > 0 {
		arg := rest[0]
		rest = rest[1:]
		switch flag := strings.TrimLeft(arg, "-"); {
		case !strings.HasPrefix(arg, "-"):
			c.args = append(c.args, arg)
		case flag == "json":
			c.json = true
		case flag == "all":
			c.all = true
		case flag == "cold":
			c.cold = true
		case slices.Contains(valueFlags, flag) && len(rest) > 0:
			if c.flags == nil {
				c.flags = map[string]string{}
			}
			c.flags[flag], rest = rest[0], rest[1:]
		case flag == "n" && len(rest) > 0:
			n, err := strconv.Atoi(rest[0])
			if err != nil || n < 1 {
				return verb{}, &useError{fmt.Sprintf("-n %q: want a positive number", rest[0])}
			}
			c.most, rest = n, rest[1:]
		default:
			return verb{}, &useError{fmt.Sprintf("unknown flag %s; see wardyn help", arg)}
		}
	}
	for _, v := range verbs() {
		if v.name == name {
			return v, nil
		}
	}
	return verb{}, &useError{fmt.Sprintf("no verb %q; see wardyn help", safeText(name))}
}

func showHelp(c verbCall) error {
	fmt.Fprint(c.out, "nomad alloc exec ALLOC wardyn VERB [-json]\n\n")
	for _, v := range verbs() {
		fmt.Fprintf(c.out, "  %-26s %s\n", strings.TrimSpace(v.name+" "+v.args), v.summary)
	}
	return nil
}

func showDecisions(c verbCall) error {
	list, err := control.Decisions(c.task.records, c.task.state.Run, c.most)
	if err != nil {
		return err
	}
	if c.json { // the records as they stand in decisions.jsonl
		return writeJSON(c.out, append([]control.Record{}, list...))
	}
	if len(list) == 0 {
		fmt.Fprintln(c.out, "the task has made no request yet")
	}
	for _, d := range list {
		line := []string{
			d.Time.UTC().Format("15:04:05"), safeText(string(d.Decision)), safeText(d.Method),
			safeText(d.Host + ":" + strconv.Itoa(d.Port)), safeText(d.Code), safeText(d.Cause),
		}
		fmt.Fprintln(c.out, strings.TrimSpace(strings.Join(line, "  ")))
	}
	return nil
}

// writeJSON writes ASCII only: what a sandbox shaped is in it.
func writeJSON(w io.Writer, v any) error {
	b, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return err
	}
	var out strings.Builder
	for _, r := range string(b) {
		switch {
		case r < 0x80:
			out.WriteRune(r)
		case r > 0xffff:
			hi, lo := utf16.EncodeRune(r)
			fmt.Fprintf(&out, `\u%04x\u%04x`, hi, lo)
		default:
			fmt.Fprintf(&out, `\u%04x`, r)
		}
	}
	_, err = io.WriteString(w, out.String()+"\n")
	return err
}
