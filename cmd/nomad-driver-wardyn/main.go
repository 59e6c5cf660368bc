// Command nomad-driver-wardyn is a Nomad task driver plugin when Nomad starts
// it, and a command line otherwise.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/wardyn/nomad-driver-wardyn/internal/cli"
	"github.com/wardyn/nomad-driver-wardyn/plugin"
)

// version is set by the linker.
var version = "0.1.0-dev"

func main() {
	self, err := os.Executable()
	if err != nil {
		fmt.Fprintln(os.Stderr, "error: where is this program:", err)
		os.Exit(1)
	}
	os.Exit(cli.Main(context.Background(), cli.Env{
		Args:       os.Args[1:],
		Stdin:      os.Stdin,
		Stdout:     os.Stdout,
		Stderr:     os.Stderr,
		LookupEnv:  os.LookupEnv,
		Interrupts: interrupts,
		Version:    version,
		Executable: self,
		ServePlugin: func() error {
			plugin.Serve(plugin.Options{Build: build, Version: version, Superseded: func() { os.Exit(0) }})
			return nil
		},
		Purge: purge, Purgeable: purgeable,
		OpenKept: openKept,
		Node:     askNode,
		Facts:    gather,

		Installed: installed,
	}))
}

// interrupts asks for the signals that end a run. It is not called in a plugin,
// which a signal ends as any program.
func interrupts() <-chan os.Signal {
	c := make(chan os.Signal, 4)
	signal.Notify(c, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	// Any broken pipe or socket raises this one, not only a reader of the
	// output that went away; noticed, it does not end the program.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	return c
}
