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
	args:    "-socket PATH [-idle DURATION]",
	summary: "keep the output of this node's tasks",
	text:    "Started by the plugin, once a node; there is no reason to call it by hand.",
	hidden:  true,
	flags:   func(fs *flag.FlagSet) { (&keeperOptions{}).bind(fs) },
	run: func(ctx context.Context, e Env, c *command, args []string) int {
		var o keeperOptions
		fs := flag.NewFlagSet(c.name, flag.ContinueOnError)
		o.bind(fs)
		if ok, code := c.parse(e, fs, args); !ok {
			return code
		}
		if o.socket == "" || fs.NArg() > 0 {
			return e.report(usageError("keeper: want -socket PATH and no argument beside it"))
		}
		return e.report(keeper.Run(ctx, keeper.Options{
			Socket: o.socket, IdleExit: o.idle, Log: slog.New(slog.NewTextHandler(e.Stderr, nil)),
		}))
	},
}

type keeperOptions struct {
	socket string
	idle   time.Duration
}

func (o *keeperOptions) bind(fs *flag.FlagSet) {
	fs.StringVar(&o.socket, "socket", "", "`PATH` of the socket on which the plugin comes in")
	fs.DurationVar(&o.idle, "idle", 0, "end after `DURATION` without a task; 0 is ten seconds")
}
