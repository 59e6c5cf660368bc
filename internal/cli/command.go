package cli

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"sort"
	"strconv"
	"strings"

	"github.com/wardyn/nomad-driver-wardyn/internal/nearest"
)

// command is one word of the command line. A new one is a file with its value
// and a line in commands.
type command struct {
	name    string
	args    string // after the name, for the usage line
	summary string // one line for the list of commands
	text    string // what help prints below the usage line
	hidden  bool   // not for people
	exits   []exit // what its exit codes mean, beside the usual ones
	flags   func(*flag.FlagSet)
	run     func(ctx context.Context, e Env, c *command, args []string) int
}

// exit is one exit code of a command.
type exit struct {
	code    int
	meaning string
}

// usualExits hold where a command has none of its own.
var usualExits = []exit{
	{exitOK, "done"},
	{exitFailed, "it failed; the reason is on stderr"},
	{exitUsage, "the command was used wrongly"},
}

// exitCodes are a command's.
func (c *command) exitCodes() []exit {
	if c.exits != nil {
		return c.exits
	}
	return usualExits
}

// commands are all there is, in the order of the help text.
func commands() []*command {
	return []*command{
		runCommand,
		validateCommand,
		explainCommand,
		doctorCommand,
		psCommand,
		ctlCommand,
		workspacesCommand,
		egressCommand,
		recordingCommand,
		imagesCommand,
		purgeCommand,
		versionCommand,
		helpCommand,
		keeperCommand,
		holderCommand,
		caretakerCommand,
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
		return false, e.report(usageError(fmt.Sprintf("%s: %v%s; see: nomad-driver-wardyn help %s", c.name, err, c.nearFlag(fs, err), c.name)))
	}
}

// nearFlag tells the flag that was probably meant, where one is unknown.
func (c *command) nearFlag(fs *flag.FlagSet, err error) string {
	unknown, ok := strings.CutPrefix(err.Error(), "flag provided but not defined: -")
	if !ok {
		return ""
	}
	var known []string
	fs.VisitAll(func(f *flag.Flag) { known = append(known, f.Name) })
	return meant("-", unknown, known)
}

// meant asks whether a near name was meant, "" where none is near.
func meant(prefix, name string, known []string) string {
	if near, ok := nearest.Name(name, known); ok {
		return fmt.Sprintf("; did you mean %s%s?", prefix, near)
	}
	return ""
}

// noCommand is the mistake of a name that is no command's.
func noCommand(name string) usageError {
	var known []string
	for _, c := range commands() {
		if !c.hidden {
			known = append(known, c.name)
		}
	}
	return usageError(fmt.Sprintf("there is no command %q%s; see: nomad-driver-wardyn help", name, meant("", name, known)))
}

// parseMixed is parse for a command whose flags may stand before, between and
// behind its arguments.
func (c *command) parseMixed(e Env, fs *flag.FlagSet, args []string) (rest []string, ok bool, code int) {
	for {
		if ok, code := c.parse(e, fs, args); !ok {
			return nil, false, code
		}
		if fs.NArg() == 0 {
			return rest, true, exitOK
		}
		rest = append(rest, fs.Arg(0))
		args = fs.Args()[1:]
	}
}

// installationFlag is the flag of commands that are about an installation.
func installationFlag(fs *flag.FlagSet, to *string) {
	fs.StringVar(to, "plugin-config", "", "the installation's options: a `FILE` with them, or the agent's with the plugin block")
}

// help prints a command's usage, text and flags.
func (c *command) help(w io.Writer, fs *flag.FlagSet) {
	fmt.Fprintf(w, "Usage: nomad-driver-wardyn %s", c.name)
	if c.args != "" {
		fmt.Fprint(w, " "+c.args)
	}
	fmt.Fprintf(w, "\n\n%s\n", c.text)
	printFlags(w, fs)
	fmt.Fprint(w, "\nExit codes:\n")
	for _, x := range c.exitCodes() {
		code := strconv.Itoa(x.code)
		if x.code < 0 {
			code = "other"
		}
		fmt.Fprintf(w, "  %-5s %s\n", code, x.meaning)
	}
}

// otherCode stands for every exit code that is not listed.
const otherCode = -1

// printFlags lists flags in the order of their names.
func printFlags(w io.Writer, fs *flag.FlagSet) {
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
