package cli

import (
	"context"
	"flag"
	"log/slog"
	"time"

	"github.com/wardyn/nomad-driver-wardyn/internal/keeper"
)

var (
	keeperCommand = outputCommand("keeper", "keep the output of this node's tasks", keeper.Run)
	holderCommand = outputCommand("holder", "hold the log files of this node's tasks open", keeper.Hold)
)

// outputCommand is one of the two processes that outlive a plugin.
func outputCommand(name, summary string, serve func(context.Context, keeper.Options) error) *command {
	return &command{
		name:    name,
		args:    "-socket PATH [-idle DURATION]",
		summary: summary,
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
				return e.report(usageError(c.name + ": want -socket PATH and no argument beside it"))
			}
			return e.report(serve(ctx, keeper.Options{
				Socket: o.socket, IdleExit: o.idle, Log: slog.New(slog.NewTextHandler(e.Stderr, nil)),
			}))
		},
	}
}

type keeperOptions struct {
	socket string
	idle   time.Duration
}

func (o *keeperOptions) bind(fs *flag.FlagSet) {
	fs.StringVar(&o.socket, "socket", "", "`PATH` of the socket on which the plugin comes in")
	fs.DurationVar(&o.idle, "idle", 0, "end after `DURATION` without a task; 0 is ten seconds")
}
