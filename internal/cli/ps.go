package cli

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/wardyn/nomad-driver-wardyn/plugin"
)

var psCommand = &command{
	name:    "ps",
	args:    "[-plugin-config FILE] [-json]",
	summary: "list the sandboxes of this node, and how full it is",
	text: `Lists the sandboxes of the driver that is installed on this node, by its data dir:
running, suspended, parked, exited (the client has not let go of them yet) and
those of which only a record is left (being made, or left by a crash; the driver
removes them). Sandboxes of other installations are not shown. Below stand the
capacity in slots and in networks of the subnet pool.`,
	flags: func(fs *flag.FlagSet) { (&psOptions{}).bind(fs) },
	run: func(ctx context.Context, e Env, c *command, args []string) int {
		var o psOptions
		fs := flag.NewFlagSet(c.name, flag.ContinueOnError)
		o.bind(fs)
		rest, ok, code := c.parseMixed(e, fs, args)
		switch {
		case !ok:
			return code
		case len(rest) > 0:
			return e.report(usageError(fmt.Sprintf("ps: unexpected argument %q", rest[0])))
		case e.Installed == nil:
			return e.report(errors.New("this program was built without an engine"))
		}
		config, err := loadPluginConfig(o.pluginConfig)
		if err != nil {
			return e.report(err)
		}
		h, err := plugin.ParseHostConfig(config)
		if err != nil {
			return e.report(err)
		}
		list, err := e.Installed(ctx, h)
		if err != nil {
			return e.report(err)
		}
		return e.report(printInstallation(e.Stdout, list, o.json))
	},
}

type psOptions struct {
	pluginConfig string
	json         bool
}

func (o *psOptions) bind(fs *flag.FlagSet) {
	installationFlag(fs, &o.pluginConfig)
	fs.BoolVar(&o.json, "json", false, "print JSON")
}

// Installation is what a driver has on this machine.
type Installation struct {
	Instance string `json:"instance"`
	Runs     []Run  `json:"runs"`
	// Slots and Networks are what is in use and what there is.
	Slots    Usage  `json:"slots"`
	Networks Usage  `json:"networks"`
	Warm     int    `json:"warm"`     // slots that wait for a task, networks included
	Capacity string `json:"capacity"` // ok, low or full
}

// Usage is a count of a whole.
type Usage struct {
	Used  int `json:"used"`
	Total int `json:"total"`
}

// Run is one sandbox. State is running, suspended, parked, exited or record, when
// there is no container.
type Run struct {
	Ref       string    `json:"ref"`
	State     string    `json:"state"`
	Class     string    `json:"class"`
	Image     string    `json:"image"`
	Namespace string    `json:"namespace"`
	Job       string    `json:"job"`
	Group     string    `json:"group"`
	Task      string    `json:"task"`
	Alloc     string    `json:"alloc_id"`
	Created   time.Time `json:"created"`
}

func printInstallation(w io.Writer, list Installation, asJSON bool) error {
	if asJSON {
		enc := json.NewEncoder(w)
		enc.SetIndent("", "  ")
		return enc.Encode(list)
	}
	if len(list.Runs) > 0 {
		t := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
		fmt.Fprintln(t, "ALLOC\tNAMESPACE\tJOB\tTASK\tCLASS\tSTATE\tCREATED\tSANDBOX\tIMAGE")
		for _, r := range list.Runs {
			fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", printable(first(r.Alloc, 8)), printable(r.Namespace), printable(r.Job),
				printable(r.Task), r.Class, r.State, r.Created.UTC().Format("2006-01-02 15:04:05"), r.Ref, printable(r.Image))
		}
		if err := t.Flush(); err != nil {
			return err
		}
	}
	warm := ""
	if list.Warm > 0 {
		warm = fmt.Sprintf(" (%d of them warm)", list.Warm)
	}
	_, err := fmt.Fprintf(w, "%d of %d slots in use, %d of %d networks leased%s: capacity %s\n",
		list.Slots.Used, list.Slots.Total, list.Networks.Used, list.Networks.Total, warm, list.Capacity)
	return err
}

func first(s string, n int) string { return s[:min(n, len(s))] }
