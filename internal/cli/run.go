package cli

import (
	"context"
	"flag"
	"fmt"
	"slices"
	"strings"
	"time"
)

var runCommand = &command{
	name:    "run",
	args:    "[FLAGS] JOB.nomad.hcl [-- EXEC ARGV...]",
	summary: "run a job file on this machine, without a cluster",
	text: `Reads a Nomad job file and runs one allocation of its group: starts this program
as a plugin, the way a Nomad client does, prepares directories, environment,
templates and log collection, starts every task in the order of its lifecycle,
restarts it as its restart block says, and prints its output behind its name.
Checks of services are run, each change of their status is told, and check_restart
restarts; the services are registered nowhere.
Output goes to stdout and stderr as the task wrote it, what happens to a task to
stderr behind a star. What a job file asks for and one machine can't give is
named with its line and refused.

Ctrl-C stops the tasks with their kill signal and timeout, a second one kills
them. The exit code is the task's; of several, the first that is not zero in the
order of the file; with -exec, that of the command. Everything the run made is
removed at its end.`,
	exits: []exit{
		{exitOK, "every task ended well"},
		{exitFailed, "the job was refused or could not be started, or a task ended with 1"},
		{exitUsage, "the command was used wrongly, or a task ended with 2"},
		{otherCode, "a task's exit code, or that of the command of -exec"},
	},
	flags: func(fs *flag.FlagSet) { (&runOptions{}).bind(fs) },
	run: func(ctx context.Context, e Env, c *command, args []string) int {
		o, code, ok := parseRun(e, c, args)
		if !ok {
			return code
		}
		code, err := runJob(ctx, e, o, launchPlugin)
		if err != nil {
			return e.report(err)
		}
		return code
	},
}

// runOptions is what run was called with.
type runOptions struct {
	job          string
	group        string
	values       valueFlags
	pluginConfig string
	allocRoot    string
	keep         bool
	decisions    bool
	json         bool
	logLevel     string
	jwks         string // the file for the public keys of identities
	exec         string // the task in which argv is run
	argv         []string
	input        bool // argv reads standard input
	given        givenFlags
	longestKill  time.Duration
}

func (o *runOptions) bind(fs *flag.FlagSet) {
	o.values.bind(fs)
	o.given.bind(fs)
	fs.StringVar(&o.group, "group", "", "the `GROUP` to run, when the job has several")
	fs.StringVar(&o.pluginConfig, "plugin-config", "", "HCL `FILE` with the plugin's options, or an agent's file with its plugin block;\n      data_dir in it is not used: a run has a data dir of its own")
	fs.StringVar(&o.allocRoot, "alloc-dir", "", "`DIR` to make the allocation's directory in; default is a new temporary one")
	fs.BoolVar(&o.keep, "keep", false, "keep the allocation's directory, except secrets and tokens of identities, and print its path")
	fs.BoolVar(&o.decisions, "decisions", false, "print the egress decisions of each task at the end")
	fs.BoolVar(&o.json, "json", false, "with -decisions: print the records as they are")
	fs.DurationVar(&o.longestKill, "max-kill-timeout", clientsLongestKill, "cut longer kill timeouts of tasks to this `DURATION`, as a client's max_kill_timeout does")
	fs.StringVar(&o.logLevel, "log-level", "", "print the plugin's log from this `LEVEL` on: trace, debug, info, warn or error")
	fs.StringVar(&o.jwks, "identity-jwks", "", "write the public keys that verify the run's workload identities to `FILE`,\n      as a JSON Web Key Set; it stays when the run ends")
	fs.StringVar(&o.exec, "exec", "", "once `TASK` runs, run the command after -- in it, then stop the job")
	fs.BoolVar(&o.input, "i", false, "with -exec: pass standard input on to the command, up to its end")
}

// clientsLongestKill is what a client allows as kill_timeout unless it is
// configured otherwise.
const clientsLongestKill = 30 * time.Second

// logLevels are the values of -log-level, from the most talkative on.
var logLevels = []string{"trace", "debug", "info", "warn", "error"}

// parseRun reads the arguments. Flags may stand on both sides of the job file;
// the first "--" begins the command of -exec.
func parseRun(e Env, c *command, args []string) (o runOptions, code int, ok bool) {
	if i := slices.Index(args, "--"); i >= 0 {
		args, o.argv = args[:i], args[i+1:]
	}
	fs := flag.NewFlagSet(c.name, flag.ContinueOnError)
	o.bind(fs)
	if ok, code := c.parse(e, fs, args); !ok {
		return o, code, false
	}
	if rest := fs.Args(); len(rest) > 0 {
		o.job = rest[0]
		if ok, code := c.parse(e, fs, rest[1:]); !ok {
			return o, code, false
		}
	}
	if err := o.check(fs.Args()); err != nil {
		return o, e.report(err), false
	}
	return o, exitOK, true
}

func (o runOptions) check(extra []string) error {
	switch {
	case o.job == "":
		return usageError("run: which job file? see: nomad-driver-wardyn help run")
	case len(extra) > 0:
		return usageError(fmt.Sprintf("run: one job file, please; %q is too much", extra[0]))
	case o.exec != "" && len(o.argv) == 0:
		return usageError("run: -exec needs a command: run -exec TASK JOB.nomad.hcl -- ARGV...")
	case o.exec == "" && len(o.argv) > 0:
		return usageError("run: a command after -- needs -exec TASK")
	case o.input && o.exec == "":
		return usageError("run: -i goes with -exec TASK")
	case o.input && o.given.payload == "-":
		return usageError("run: standard input is the payload (-payload -) and cannot be the command's too (-i): give the payload in a file")
	case o.longestKill <= 0:
		return usageError(fmt.Sprintf("run: -max-kill-timeout %s: want more than 0", o.longestKill))
	case o.json && !o.decisions:
		return usageError("run: -json goes with -decisions")
	case o.logLevel != "" && !slices.Contains(logLevels, o.logLevel):
		return usageError(fmt.Sprintf("run: -log-level %q: want one of %s", o.logLevel, strings.Join(logLevels, ", ")))
	}
	return nil
}
