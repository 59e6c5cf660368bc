package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"

	"github.com/wardyn/nomad-driver-wardyn/internal/doctor"
	"github.com/wardyn/nomad-driver-wardyn/plugin"
)

// The magic cookie by which a Nomad client tells a plugin what it is.
const (
	cookieKey   = "NOMAD_PLUGIN_MAGIC_COOKIE"
	cookieValue = "e4327c2e01eabfd75a8a67adb114fb34a757d57eee7728d857a8cec6e91a7255"
)

// Exit codes of the command line itself. A run that got as far as its tasks
// exits with a task's code instead.
const (
	exitOK     = 0
	exitFailed = 1
	exitUsage  = 2
)

// Env is what the command line works with.
type Env struct {
	Args           []string // without the program's own name
	Stdin          io.Reader
	Stdout, Stderr io.Writer
	// LookupEnv reads the environment.
	LookupEnv func(key string) (string, bool)
	// Interrupts begins to deliver the signals that end a run: the first asks it
	// to stop, the second kills it. SIGPIPE is among them so that it does not
	// end the program; a failed write is what tells that nobody reads any more.
	Interrupts func() <-chan os.Signal
	Version    string
	// Executable is the plugin binary that run starts: this program itself.
	Executable string

	// What follows comes from the parts that the program is made of; nil where
	// one is not built in.

	// ServePlugin serves Nomad's plugin protocol and returns when the client
	// has shut it down.
	ServePlugin func() error
	// Purge ends whatever the installation with these plugin options has on this
	// machine: objects on the engine, those that tasks share among them, and its
	// keeper and holder. With kept, that which outlives tasks goes too. run calls
	// it for a data dir of its own, once the plugin has ended.
	Purge func(ctx context.Context, config map[string]any, kept bool) error
	// OpenKept gives access to what the installation keeps.
	OpenKept func(config map[string]any) (Kept, error)
	// Purgeable lists what Purge would remove, a line each, and what it would
	// leave although it carries the installation's label.
	Purgeable func(ctx context.Context, config map[string]any, kept bool) ([]string, error)
	// Node asks the engine that these options name about itself and its host.
	// Nothing is made.
	Node func(ctx context.Context, h plugin.HostConfig) (*Node, error)
	// Facts finds out what doctor judges; deep probes every class anew, in an
	// installation of its own that is gone afterwards.
	Facts func(ctx context.Context, h plugin.HostConfig, deep bool) (doctor.Facts, error)
	// Installed lists what an installation has on this machine.
	Installed func(ctx context.Context, h plugin.HostConfig) (Installation, error)
}

// Main dispatches and returns the process's exit code.
func Main(ctx context.Context, e Env) int {
	// What is started beside a plugin may inherit its environment, so its
	// command goes before the cookie.
	beside := len(e.Args) > 0 && slices.Contains(besidePlugin(), e.Args[0])
	if cookie, _ := e.LookupEnv(cookieKey); cookie == cookieValue && !beside {
		return e.report(e.servePlugin())
	}
	if len(e.Args) == 0 {
		usage(e.Stderr)
		return exitUsage
	}
	name, rest := e.Args[0], e.Args[1:]
	switch name {
	case "-h", "-help", "--help":
		name = "help"
	case "-version", "--version":
		name = "version"
	}
	c := find(name)
	if c == nil {
		return e.report(noCommand(name))
	}
	return c.run(ctx, e, c, rest)
}

// besidePlugin are the commands that are started beside a plugin.
func besidePlugin() []string {
	return []string{keeperCommand.name, holderCommand.name, caretakerCommand.name}
}

func (e Env) servePlugin() error {
	if e.ServePlugin == nil {
		return errors.New("this program was built without the plugin")
	}
	return e.ServePlugin()
}

// report prints an error, if there is one, and gives the exit code for it.
func (e Env) report(err error) int {
	if err == nil {
		return exitOK
	}
	fmt.Fprintln(e.Stderr, "error:", err)
	var u usageError
	if errors.As(err, &u) {
		return exitUsage
	}
	return exitFailed
}

// ErrEngineAway is wrapped by an error of Purge when there was no engine to
// remove anything from.
var ErrEngineAway = errors.New("the engine does not answer")

// usageError is a mistake in the arguments.
type usageError string

func (u usageError) Error() string { return string(u) }
