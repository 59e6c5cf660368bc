// Command wardyn-proxy is the egress sidecar of one sandbox.
//
// It gets its configuration from its control plane (-control), from a file
// (-config) or from the environment (WARDYN_PROXY_CONFIG_JSON), in this order.
// It exits with 1 when there is none or when it cannot be used, and with 2 on
// bad flags.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	stdlog "log"
	"log/slog"
	"os"
	"os/signal"
	"strings"
	"syscall"
)

func main() {
	os.Exit(run(os.Args[1:]))
}

func run(args []string) int {
	stdlog.SetOutput(io.Discard) // where libraries complain of origins and quote what those sent, maybe a credential
	fs := flag.NewFlagSet("wardyn-proxy", flag.ContinueOnError)
	control := fs.String("control", "", "control plane to fetch the configuration from, such as unix:///run/wardyn/control.sock")
	file := fs.String("config", "", "read the proxy configuration from this file")
	verbose := fs.Bool("v", false, "log debug messages")
	if err := fs.Parse(args); err != nil {
		return 2
	}
	if fs.NArg() > 0 {
		fmt.Fprintf(os.Stderr, "wardyn-proxy: unexpected argument %q\n", fs.Arg(0))
		return 2
	}
	if err := checkScanSwitch(os.Getenv("WARDYN_LLM_SCAN")); err != nil {
		fmt.Fprintln(os.Stderr, "wardyn-proxy:", err)
		return 2
	}
	level := slog.LevelInfo
	if *verbose {
		level = slog.LevelDebug
	}
	log := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: level}))
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	noDumps()
	if err := serve(ctx, *control, *file, log); err != nil && !errors.Is(err, context.Canceled) {
		log.Error("wardyn-proxy stops", "error", err)
		return 1
	}
	return 0
}

// checkScanSwitch reads WARDYN_LLM_SCAN, which can only switch scanning off.
// This proxy scans nothing, so any valid value is without effect.
func checkScanSwitch(v string) error {
	switch strings.ToLower(strings.TrimSpace(v)) {
	case "", "on", "1", "true", "yes", "enable", "enabled",
		"off", "0", "false", "no", "disable", "disabled", "none":
		return nil
	}
	return fmt.Errorf("WARDYN_LLM_SCAN is %q; want on or off", v)
}

// noDumps keeps secrets out of core files and away from debuggers of the same
// user. A kernel that refuses is no reason not to run.
func noDumps() {
	_ = syscall.Setrlimit(syscall.RLIMIT_CORE, &syscall.Rlimit{})
	const prSetDumpable = 4
	_, _, _ = syscall.Syscall(syscall.SYS_PRCTL, prSetDumpable, 0, 0)
}
