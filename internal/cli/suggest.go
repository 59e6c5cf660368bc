package cli

import (
	"bufio"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/wardyn/nomad-driver-wardyn/runner/egress"
)

var egressCommand = &command{
	name:    "egress",
	args:    "suggest [-seen N] FILE...",
	summary: "print the smallest allow list for what a task asked for",
	text: "Reads decision files (decisions.jsonl of a task's wardyn folder, \"-\" for standard\n" +
		"input) and prints an egress block for the job: the entries that were used, and one\n" +
		"for each host and port that no list spoke of, in learn mode or not. What a deny\n" +
		"list, the operator's ceiling or the address guard refused is named and left out,\n" +
		"and so is what failed on its way, a name that does not resolve for instance. What\n" +
		"needs no entry counts for nothing: the git broker's requests, the way to an\n" +
		"upstream proxy, and clients of the task's ports.",
	flags: func(fs *flag.FlagSet) { (&suggestOptions{}).bind(fs) },
	run: func(_ context.Context, e Env, c *command, args []string) int {
		if len(args) == 0 || args[0] != "suggest" {
			return e.report(usageError("egress: say suggest FILE..."))
		}
		var o suggestOptions
		fs := flag.NewFlagSet(c.name, flag.ContinueOnError)
		o.bind(fs)
		if ok, code := c.parse(e, fs, args[1:]); !ok {
			return code
		}
		if fs.NArg() == 0 {
			return e.report(usageError("egress suggest: name a decisions.jsonl"))
		}
		s := newSuggestion()
		for _, name := range fs.Args() {
			if err := s.readFile(name); err != nil {
				return e.report(err)
			}
		}
		return e.report(s.print(e.Stdout, o.seen))
	},
}

type suggestOptions struct{ seen int }

func (o *suggestOptions) bind(fs *flag.FlagSet) {
	fs.IntVar(&o.seen, "seen", 1, "leave out what no list speaks of and was asked for fewer than `N` times")
}

// suggestion counts what was asked for.
type suggestion struct {
	used    map[string]int  // entries of the job, as written
	missing map[string]int  // "host:port" that no list speaks of
	denied  map[string]bool // of those, what was refused when it was asked for
	refused map[string]string
	failed  map[string]string // the latest code of what did not get through
	broken  int
}

func newSuggestion() *suggestion {
	return &suggestion{used: map[string]int{}, missing: map[string]int{}, denied: map[string]bool{}, refused: map[string]string{}, failed: map[string]string{}}
}

func (s *suggestion) readFile(name string) error {
	f := os.Stdin
	if name != "-" {
		var err error
		if f, err = os.Open(name); err != nil {
			return err
		}
		defer f.Close()
	}
	if err := s.read(f); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

func (s *suggestion) read(from io.Reader) error {
	lines := bufio.NewScanner(from)
	lines.Buffer(nil, longestRecord)
	for lines.Scan() {
		var r record
		if json.Unmarshal(lines.Bytes(), &r) != nil {
			s.broken++
			continue
		}
		if r.Kind == "decision" {
			s.take(r)
		}
	}
	return lines.Err()
}

// learned is the rule of what learn mode let through.
const learned = "learn mode"

// take counts one verdict. Names come from a sandbox, so one that could not
// stand in a policy counts for nothing.
func (s *suggestion) take(r record) {
	entry := net.JoinHostPort(r.Host, strconv.Itoa(r.Port))
	if _, err := egress.ParseAllow(entry); err != nil || needsNoEntry(r) {
		return
	}
	switch {
	case r.Rule.ID == learned, r.Code == "policy:default-deny", strings.HasPrefix(r.Code, "approval:"), r.Rule.ID == "approval":
		s.missing[entry]++
		s.denied[entry] = s.denied[entry] || r.Decision == "deny"
	case r.Decision == "allow":
		if _, err := egress.ParseAllow(r.Rule.ID); err == nil {
			s.used[r.Rule.ID]++
		} else {
			s.missing[entry]++ // by allow_all
		}
	case r.Code == "policy:denied" || r.Code == "builtin:private-ip":
		s.refused[entry] = r.Code
	case r.Decision == "deny":
		s.failed[entry] = r.Code
	}
}

// needsNoEntry reports whether a verdict is about something that no allow list
// speaks of. An entry for it would open more than the task has.
func needsNoEntry(r record) bool {
	switch {
	case r.Direction == egress.Inbound, r.Host == egress.SidecarName:
		return true
	case r.Code == "builtin:upstream-proxy" && r.Decision == "allow":
		return true // the hop to it, which has no rule
	}
	return strings.HasPrefix(r.Rule.ID, "git ") || strings.HasPrefix(r.Rule.ID, "push ")
}

// print writes the block. An entry that another covers is left out.
func (s *suggestion) print(w io.Writer, seen int) error {
	count := map[string]int{}
	for e, n := range s.used {
		count[e] += n
	}
	for e, n := range s.missing {
		if n >= seen {
			count[e] += n
		}
	}
	entries := smallest(count)
	b := &strings.Builder{}
	fmt.Fprintln(b, "egress {\n  allow = [")
	for _, e := range entries {
		mark := ""
		if s.denied[e] {
			mark = ", was refused: look before you allow it"
		}
		fmt.Fprintf(b, "    %q, # %d%s\n", e, count[e], mark)
	}
	fmt.Fprintln(b, "  ]\n}")
	for _, e := range sorted(s.refused) {
		fmt.Fprintf(b, "# left out: %s, refused by %s\n", printable(e), printable(s.refused[e]))
	}
	for _, e := range sorted(s.failed) {
		if !covered(e, count) {
			fmt.Fprintf(b, "# left out: %s, not reached: %s; add it if the task needs it\n", printable(e), printable(s.failed[e]))
		}
	}
	if s.broken > 0 {
		fmt.Fprintf(b, "# %d lines were no records\n", s.broken)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// smallest drops what other entries cover.
func smallest(count map[string]int) []string {
	var out []string
	for _, e := range sorted(count) {
		if _, err := egress.ParseAllow(e); err == nil && !covered(e, count) {
			out = append(out, e)
		}
	}
	return out
}

// covered reports whether entries other than this one cover it, or are the same
// in other words.
func covered(e string, count map[string]int) bool {
	one, err := egress.ParseAllow(e)
	if err != nil {
		return false
	}
	var others []egress.Entry
	for other := range count {
		if x, err := egress.ParseAllow(other); err == nil && other != e && x != one {
			others = append(others, x)
		}
	}
	return egress.NewList(others...).Covers(one)
}

func sorted[V any](m map[string]V) []string {
	out := make([]string, 0, len(m))
	for k := range m {
		out = append(out, k)
	}
	slices.Sort(out)
	return out
}
