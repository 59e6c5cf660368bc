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
		"run directories, and its output keeper: for taking the driver off a node. Stop the\n" +
		"jobs first, then take the plugin block out of the agent's configuration and restart\n" +
		"the agent, or stop it: while its plugin has the data dir, -yes is refused and names\n" +
		"the process. A plugin whose agent was killed is named too, and ends before anything\n" +
		"is removed. Objects of other installations and of others on the same engine are not\n" +
		"touched. The data dir itself stays, and so does what outlives tasks: volumes,\n" +
		"snapshots and the images of setups go only with -kept. With -dry-run it lists all\n" +
		"that -yes would remove, with -kept those things as well, what has the installation's\n" +
		"label without being its own, and the plugin that has the data dir.",
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
			e.sayInUse(config)
			return e.report(err)
		}
		give, err := e.claimToPurge(ctx, config)
		if err != nil {
			return e.report(err)
		}
		defer give()
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
