package cli

import (
	"context"
	"flag"
	"fmt"
)

var purgeCommand = &command{
	name:    "purge",
	args:    "[-plugin-config FILE] [-kept] -yes | -dry-run",
	summary: "remove everything an installation has on this node",
	text: "Ends every sandbox of the installation and removes its containers, networks and\n" +
		"run directories, and its output keeper: for taking the driver off a node, after\n" +
		"the agent has let go of it. Objects of other installations and of others on the\n" +
		"same engine are not touched. The data dir itself stays, and so does what outlives\n" +
		"tasks: volumes, snapshots and the images of setups go only with -kept. With -dry-run\n" +
		"it lists the runs it would remove, with -kept those things as well, and what has\n" +
		"the installation's label without being its own.",
	flags: func(fs *flag.FlagSet) { (&purgeOptions{}).bind(fs) },
	run: func(ctx context.Context, e Env, c *command, args []string) int {
		var o purgeOptions
		fs := flag.NewFlagSet(c.name, flag.ContinueOnError)
		o.bind(fs)
		if ok, code := c.parse(e, fs, args); !ok {
			return code
		}
		if fs.NArg() > 0 {
			return e.report(usageError(fmt.Sprintf("purge: unexpected argument %q", fs.Arg(0))))
		}
		if o.yes == o.dryRun {
			return e.report(usageError("purge: it ends every sandbox of this installation; say either -yes or -dry-run"))
		}
		config, err := loadPluginConfig(o.config)
		if err != nil {
			return e.report(err)
		}
		if o.dryRun {
			found, err := e.Purgeable(ctx, config, o.kept)
			for _, line := range found {
				fmt.Fprintln(e.Stdout, line)
			}
			return e.report(err)
		}
		return e.report(e.Purge(ctx, config, o.kept))
	},
}

type purgeOptions struct {
	config string
	yes    bool
	kept   bool
	dryRun bool
}

func (o *purgeOptions) bind(fs *flag.FlagSet) {
	installationFlag(fs, &o.config)
	fs.BoolVar(&o.kept, "kept", false, "remove volumes, snapshots and the images of setups as well")
	fs.BoolVar(&o.yes, "yes", false, "do it")
	fs.BoolVar(&o.dryRun, "dry-run", false, "list what would be removed, and remove nothing")
}
