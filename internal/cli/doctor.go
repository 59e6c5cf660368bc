package cli

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"strings"

	"github.com/wardyn/nomad-driver-wardyn/internal/doctor"
	"github.com/wardyn/nomad-driver-wardyn/plugin"
)

var doctorCommand = &command{
	name:    "doctor",
	args:    "[-deep] [-plugin-config FILE] [-json]",
	summary: "examine this node: engine, classes, isolation, pools, disk; with remedies",
	text: `Asks the engine and the host what the driver depends on, and says of each fault
what to do: the engine and its known-bad versions, each confinement class and why
a runtime is not offered, the isolation in force, address ranges and who else
holds them, disk and data dir, and the plugin's options with the files they name.

Nothing is made. What a class's last probe found is read from the data dir of the
driver that runs here. With -deep every class is probed now: a container is run
under each runtime, in an installation of its own that is gone afterwards. That
is the command to run after a runtime was installed or changed, a microVM's
above all.`,
	exits: []exit{
		{exitOK, "no error; there may be warnings"},
		{exitFailed, "at least one error"},
		{exitUsage, "the node could not be examined, or the command was used wrongly"},
	},
	flags: func(fs *flag.FlagSet) { (&doctorOptions{}).bind(fs) },
	run: func(ctx context.Context, e Env, c *command, args []string) int {
		var o doctorOptions
		fs := flag.NewFlagSet(c.name, flag.ContinueOnError)
		o.bind(fs)
		rest, ok, code := c.parseMixed(e, fs, args)
		switch {
		case !ok:
			return code
		case len(rest) > 0:
			return e.report(usageError(fmt.Sprintf("doctor: unexpected argument %q", rest[0])))
		}
		found, err := examine(ctx, e, o)
		if err != nil {
			fmt.Fprintln(e.Stderr, "error:", err)
			return exitUsage
		}
		if err := printFindings(e.Stdout, found, o.json); err != nil {
			return e.report(err)
		}
		if doctor.Worst(found) == doctor.Error {
			return exitFailed
		}
		return exitOK
	},
}

type doctorOptions struct {
	pluginConfig string
	deep         bool
	json         bool
}

func (o *doctorOptions) bind(fs *flag.FlagSet) {
	installationFlag(fs, &o.pluginConfig)
	fs.BoolVar(&o.deep, "deep", false, "run every class's probe now; takes up to a minute for each")
	fs.BoolVar(&o.json, "json", false, "print JSON")
}

func examine(ctx context.Context, e Env, o doctorOptions) ([]doctor.Finding, error) {
	if e.Facts == nil {
		return nil, errors.New("this program was built without an engine")
	}
	options, lines, err := readPluginConfig(o.pluginConfig)
	if err != nil {
		return nil, err
	}
	h, faults := plugin.ReviewHostConfig(options)
	var config []string
	for _, f := range faults {
		config = append(config, problem{File: o.pluginConfig, Line: lines.find(f.Field), Fault: f}.String())
	}
	facts, err := e.Facts(ctx, h, o.deep)
	if err != nil { // likely because of one of the faults
		return nil, errors.New(strings.Join(append(config, err.Error()), "\nerror: "))
	}
	facts.Config = config
	for _, f := range h.Files() {
		facts.Files = append(facts.Files, doctor.File(f))
	}
	return doctor.Examine(facts), nil
}

func printFindings(w io.Writer, found []doctor.Finding, asJSON bool) error {
	if asJSON {
		enc := json.NewEncoder(w)
		enc.SetIndent("", "  ")
		return enc.Encode(struct {
			Worst    doctor.Severity  `json:"worst"`
			Findings []doctor.Finding `json:"findings"`
		}{doctor.Worst(found), found})
	}
	for _, f := range found {
		mark := map[doctor.Severity]string{doctor.Error: "ERROR", doctor.Warning: "WARN", doctor.Info: "ok"}[f.Severity]
		if f.Severity == doctor.Info && f.Remedy != "" {
			mark = "note"
		}
		fmt.Fprintf(w, "%-5s  %s: %s\n", mark, f.Subject, printable(f.Text))
		if f.Remedy != "" {
			fmt.Fprintf(w, "       -> %s\n", printable(f.Remedy))
		}
	}
	return nil
}
