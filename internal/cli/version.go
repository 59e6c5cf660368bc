package cli

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"runtime"
)

var versionCommand = &command{
	name:    "version",
	args:    "[-json]",
	summary: "print the version",
	text:    "Prints the version of this program, which holds the sidecar and the init of the\nsame version.",
	flags:   func(fs *flag.FlagSet) { jsonFlag(fs) },
	run:     version,
}

func jsonFlag(fs *flag.FlagSet) *bool { return fs.Bool("json", false, "print JSON") }

func version(_ context.Context, e Env, c *command, args []string) int {
	fs := flag.NewFlagSet("version", flag.ContinueOnError)
	asJSON := jsonFlag(fs)
	if ok, code := c.parse(e, fs, args); !ok {
		return code
	}
	if *asJSON {
		out := map[string]string{"version": e.Version, "go": runtime.Version(), "platform": runtime.GOOS + "/" + runtime.GOARCH}
		return e.report(json.NewEncoder(e.Stdout).Encode(out))
	}
	fmt.Fprintf(e.Stdout, "nomad-driver-wardyn %s (%s, %s/%s)\n", e.Version, runtime.Version(), runtime.GOOS, runtime.GOARCH)
	return exitOK
}
