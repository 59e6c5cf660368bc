package cli

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"

	"github.com/wardyn/nomad-driver-wardyn/plugin"
)

var validateCommand = &command{
	name:    "validate",
	args:    "[FLAGS] [JOB.nomad.hcl...]",
	summary: "check job files, or an agent's plugin config, before anything is placed",
	text: `Checks job files against the driver's options, the operator's ceilings and, when
an engine answers, this machine: its runtimes and the image if it is there. All
faults are reported at once, with file and line, and nothing is made or pulled.
What a job file leaves to the client's facts (${attr...}, ${meta...}) is named
and not judged. Tasks of other drivers are passed over.

With -plugin-config and no job file the plugin's options alone are checked: an
agent does not start on an unknown one.`,
	exits: []exit{
		{exitOK, "nothing to object to"},
		{exitFailed, "at least one fault"},
		{exitUsage, "a file could not be checked, or the command was used wrongly"},
	},
	flags: func(fs *flag.FlagSet) { (&checkOptions{}).bind(fs) },
	run: func(ctx context.Context, e Env, c *command, args []string) int {
		return runCheck(ctx, e, c, args, printValidation)
	},
}

// checkOptions are those of validate and explain.
type checkOptions struct {
	values       valueFlags
	pluginConfig string
	offline      bool
	json         bool
}

func (o *checkOptions) bind(fs *flag.FlagSet) {
	o.values.bind(fs)
	fs.StringVar(&o.pluginConfig, "plugin-config", "", "HCL `FILE` with the plugin's options, or an agent's file with its plugin block")
	fs.BoolVar(&o.offline, "offline", false, "do not ask an engine: judge for any node")
	fs.BoolVar(&o.json, "json", false, "print JSON")
}

// checked is what validate and explain found out.
type checked struct {
	// Config are the faults of the plugin's options.
	Config []problem     `json:"plugin_config"`
	Files  []fileVerdict `json:"files"`
	// Host says why the node was not asked; "" when it was.
	Host string `json:"host_not_asked,omitempty"`
	// Unread are files that could not be read.
	Unread []string `json:"unread,omitempty"`
}

// code is the exit code: what could not be checked outweighs a fault.
func (c checked) code() int {
	if len(c.Unread) > 0 {
		return exitUsage
	}
	for _, f := range c.Files {
		if len(f.Faults) > 0 {
			return exitFailed
		}
	}
	if len(c.Config) > 0 {
		return exitFailed
	}
	return exitOK
}

// runCheck is the common part of validate and explain.
func runCheck(ctx context.Context, e Env, c *command, args []string, print func(io.Writer, checked)) int {
	var o checkOptions
	fs := flag.NewFlagSet(c.name, flag.ContinueOnError)
	o.bind(fs)
	files, ok, code := c.parseMixed(e, fs, args)
	if !ok {
		return code
	}
	if len(files) == 0 && (o.pluginConfig == "" || c.name != "validate") {
		return e.report(usageError(fmt.Sprintf("%s: which job file? see: nomad-driver-wardyn help %s", c.name, c.name)))
	}
	out, err := check(ctx, e, o, files)
	if err != nil {
		fmt.Fprintln(e.Stderr, "error:", err)
		return exitUsage
	}
	for _, u := range out.Unread {
		fmt.Fprintln(e.Stderr, "error:", u)
	}
	if o.json {
		enc := json.NewEncoder(e.Stdout)
		enc.SetIndent("", "  ")
		if err := enc.Encode(out); err != nil {
			return e.report(err)
		}
		return out.code()
	}
	print(e.Stdout, out)
	return out.code()
}

// check judges files. The error is a plugin config that could not be read.
func check(ctx context.Context, e Env, o checkOptions, files []string) (checked, error) {
	out := checked{Config: []problem{}, Files: []fileVerdict{}}
	config, lines, err := readPluginConfig(o.pluginConfig)
	if err != nil {
		return out, err
	}
	h, faults := plugin.ReviewHostConfig(config)
	for _, f := range faults {
		out.Config = append(out.Config, problem{File: o.pluginConfig, Line: lines.find(f.Field), Fault: f})
	}
	j := judge{host: h, values: o.values.values(e)}
	switch {
	case len(files) == 0:
		return out, nil
	case o.offline:
		out.Host = "-offline"
	default:
		if j.node, err = askNode(ctx, e, h); err != nil {
			out.Host = err.Error()
		} else {
			defer j.node.Close()
		}
	}
	for _, path := range files {
		v, err := j.file(ctx, path)
		if err != nil {
			out.Unread = append(out.Unread, err.Error())
			continue
		}
		out.Files = append(out.Files, v)
	}
	return out, nil
}

func askNode(ctx context.Context, e Env, h plugin.HostConfig) (*Node, error) {
	if e.Node == nil {
		return nil, errors.New("this program was built without an engine")
	}
	return e.Node(ctx, h)
}

// printFaults writes what is wrong, and tells whether anything is.
func printFaults(w io.Writer, out checked) {
	for _, p := range out.Config {
		fmt.Fprintln(w, printable(p.String()))
	}
	for _, f := range out.Files {
		for _, p := range f.Faults {
			fmt.Fprintln(w, printable(p.String()))
		}
	}
}

func printValidation(w io.Writer, out checked) {
	printFaults(w, out)
	for _, f := range out.Files {
		for _, n := range f.Notes {
			fmt.Fprintln(w, "note:", printable(n))
		}
	}
	if out.Host != "" {
		fmt.Fprintln(w, "note: the host was not asked:", printable(out.Host))
	}
	for _, f := range out.Files {
		fmt.Fprintf(w, "%s: %s\n", f.File, count(len(f.Faults), len(f.Tasks)))
	}
	if len(out.Files) == 0 && len(out.Unread) == 0 {
		fmt.Fprintf(w, "plugin config: %s\n", faultCount(len(out.Config)))
	}
}

func count(faults, tasks int) string {
	if faults > 0 {
		return faultCount(faults)
	}
	if tasks == 1 {
		return "ok, 1 task"
	}
	return fmt.Sprintf("ok, %d tasks", tasks)
}

func faultCount(n int) string {
	switch n {
	case 0:
		return "ok"
	case 1:
		return "1 fault"
	}
	return fmt.Sprintf("%d faults", n)
}
