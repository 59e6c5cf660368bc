package cli

import (
	"context"
	"flag"
	"log/slog"
	"time"

	"github.com/wardyn/nomad-driver-wardyn/internal/keeper"
)

var keeperCommand = &command{
	name:    "keeper",
	args:    "[-idle DURATION] SOCKET",
	summary: "keep the output of this node's tasks",
	text:    "Started by the plugin, once a node; there is no reason to call it by hand.",
	hidden:  true,
	flags:   func(fs *flag.FlagSet) { idleFlag(fs) },
	run: func(ctx context.Context, e Env, c *command, args []string) int {
		fs := flag.NewFlagSet(c.name, flag.ContinueOnError)
		idle := idleFlag(fs)
		if ok, code := c.parse(e, fs, args); !ok {
			return code
		}
		if fs.NArg() != 1 {
			return e.report(usageError("keeper: want the path of a socket and nothing else"))
		}
		return e.report(keeper.Run(ctx, keeper.Options{
			Socket: fs.Arg(0), IdleExit: *idle, Log: slog.New(slog.NewTextHandler(e.Stderr, nil)),
		}))
	},
}

func idleFlag(fs *flag.FlagSet) *time.Duration {
	return fs.Duration("idle", 0, "end after `DURATION` without a task; 0 is ten seconds")
}
