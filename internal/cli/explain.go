package cli

import (
	"context"
	"flag"
	"fmt"
	"io"

	"github.com/wardyn/nomad-driver-wardyn/plugin"
)

var explainCommand = &command{
	name:    "explain",
	args:    "[FLAGS] JOB.nomad.hcl...",
	summary: "print what would hold for each task, and who decided it",
	text: `Prints for each task its class, command, egress policy, limits, mounts and the
names of its environment, and who decided each: the author (the job file), the
operator (the plugin's options), Nomad or the driver's default. It is worked out
by the code that starts tasks; nothing is made. A file with faults is reported
as validate does. For a task that runs: nomad alloc exec ALLOC wardyn explain.`,
	exits: validateCommand.exits,
	flags: func(fs *flag.FlagSet) { (&checkOptions{}).bind(fs) },
	run: func(ctx context.Context, e Env, c *command, args []string) int {
		return runCheck(ctx, e, c, args, printExplanation)
	},
}

func printExplanation(w io.Writer, out checked) {
	printFaults(w, out)
	if out.Host != "" {
		fmt.Fprintln(w, "note: the host was not asked:", printable(out.Host))
	}
	for _, f := range out.Files {
		for _, n := range f.Notes {
			fmt.Fprintln(w, "note:", printable(n))
		}
		for _, t := range f.Tasks {
			if t.Settings == nil {
				continue
			}
			fmt.Fprintf(w, "\ntask %q of group %q (%s)\n", t.Task, t.Group, f.File)
			if plugin.PrintSettings(w, t.Settings) != nil {
				return // nobody reads any more
			}
		}
	}
}
