package cli

import (
	"context"
	"flag"
)

var helpCommand = &command{
	name:    "help",
	args:    "[COMMAND]",
	summary: "tell how a command is used",
	text:    "Without a command: lists the commands.",
}

// help looks the commands up, itself among them: a cycle that Go accepts here.
func init() { helpCommand.run = help }

func help(_ context.Context, e Env, _ *command, args []string) int {
	if len(args) == 0 {
		usage(e.Stdout)
		return exitOK
	}
	c := find(args[0])
	if c == nil {
		return e.report(noCommand(args[0]))
	}
	fs := flag.NewFlagSet(c.name, flag.ContinueOnError)
	if c.flags != nil {
		c.flags(fs)
	}
	c.help(e.Stdout, fs)
	return exitOK
}
