package cli

import "context"

var keeperCommand = &command{
	name:    "keeper",
	summary: "keep the output of this node's tasks",
	text:    "Started by the plugin, once a node; there is no reason to call it by hand.",
	hidden:  true,
	run: func(ctx context.Context, e Env, _ *command, args []string) int {
		return e.report(e.Keeper(ctx, args))
	},
}
