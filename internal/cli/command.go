package cli

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"sort"
)

// command is one word of the command line. A new one is a file with its value
// and a line in commands.
type command struct {
	name    string
	args    string // after the name, for the usage line
	summary string // one line for the list of commands
	text    string // what help prints below the usage line
	hidden  bool   // not for people
	flags   func(*flag.FlagSet)
	run     func(ctx context.Context, e Env, c *command, args []string) int
}

// commands are all there is, in the order of the help text.
func commands() []*command {
	return []*command{
		runCommand,
		purgeCommand,
		versionCommand,
		helpCommand,
		keeperCommand,
		holderCommand,
	}
}

func find(name string) *command {
	for _, c := range commands() {
		if c.name == name {
			return c
		}
	}
	return nil
}

func usage(w io.Writer) {
	fmt.Fprint(w, "Usage: nomad-driver-wardyn COMMAND [ARGUMENTS]\n\n"+
		"A Nomad task driver for governed sandboxes. Nomad starts this program as a\n"+
		"plugin; by hand it offers:\n\n")
	for _, c := range commands() {
		if !c.hidden {
			fmt.Fprintf(w, "  %-10s %s\n", c.name, c.summary)
		}
	}
	fmt.Fprint(w, "\nnomad-driver-wardyn help COMMAND tells more.\n")
}

// parse reads a command's flags into fs. When it returns false the command is
// over and code is its exit code.
func (c *command) parse(e Env, fs *flag.FlagSet, args []string) (ok bool, code int) {
	fs.SetOutput(io.Discard)
	fs.Usage = func() {}
	err := fs.Parse(args)
	switch {
	case err == nil:
		return true, exitOK
	case errors.Is(err, flag.ErrHelp):
		c.help(e.Stdout, fs)
		return false, exitOK
	default:
		fmt.Fprintf(e.Stderr, "%s: %v\n\n", c.name, err)
		c.help(e.Stderr, fs)
		return false, exitUsage
	}
}

// help prints a command's usage, text and flags.
func (c *command) help(w io.Writer, fs *flag.FlagSet) {
	fmt.Fprintf(w, "Usage: nomad-driver-wardyn %s", c.name)
	if c.args != "" {
		fmt.Fprint(w, " "+c.args)
	}
	fmt.Fprintf(w, "\n\n%s\n", c.text)
	var flags []*flag.Flag
	fs.VisitAll(func(f *flag.Flag) { flags = append(flags, f) })
	if len(flags) == 0 {
		return
	}
	sort.Slice(flags, func(i, j int) bool { return flags[i].Name < flags[j].Name })
	fmt.Fprint(w, "\nFlags:\n")
	for _, f := range flags {
		arg, text := flag.UnquoteUsage(f)
		if arg != "" {
			arg = " " + arg
		}
		fmt.Fprintf(w, "  -%s%s\n      %s\n", f.Name, arg, text)
	}
}
