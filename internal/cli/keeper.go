package cli

import (
	"context"
	"errors"
)

var keeperCommand = &command{
	name:    "keeper",
	summary: "keep the output of this node's tasks",
	text:    "Started by the plugin, once a node; there is no reason to call it by hand.",
	hidden:  true,
	run: func(ctx context.Context, e Env, _ *command, args []string) int {
		if e.Keeper == nil {
			return e.report(errors.New("this program was built without the keeper"))
		}
		return e.report(e.Keeper(ctx, args))
	},
}
