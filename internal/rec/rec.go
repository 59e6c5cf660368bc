package rec

import (
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/wardyn/nomad-driver-wardyn/internal/rec/probe"
)

// exitUsage is the code of a command line that makes no sense.
const exitUsage = 2

const usage = `wardyn-rec runs inside a wardyn sandbox.

  wardyn-rec init [-gate FILE] [-tty] -- argv...   pid 1: reaps, forwards signals, exits as argv did
  wardyn-rec init [-gate FILE] -idle               pid 1 without a command, until SIGTERM, SIGINT or SIGQUIT
                                                   (-gate: not before FILE has something in it)
  wardyn-rec init -stages FILE [-idle | -- argv...]  the same after the stages of FILE
  wardyn-rec exec [-cols N -rows N] ID -- argv...  first process of an exec
  wardyn-rec kill [-s SIG] ID                      end the exec of that id; one that is gone is success
  wardyn-rec [-cast-dir DIR] [-out-dir DIR | -upload-url URL] -run ID -- argv...
                                                   record argv's terminal, or its output, while it runs
  wardyn-rec probe                                 run 64 processes and check what they compute
  wardyn-rec netprobe [-timeout 2s] target...      try to reach each target, one JSON line each;
                      [-settle 1s]                 give up the others that long after the first
  wardyn-rec listen target...                      answer on tcp:addr:port and udp:addr:port
  wardyn-rec version | help
`

// Main runs one command line, program name first, and returns the exit code.
func Main(args []string, version string) int {
	if len(args) < 2 {
		io.WriteString(os.Stderr, usage)
		return exitUsage
	}
	switch cmd, rest := args[1], args[2:]; cmd {
	case "init":
		return runInit(rest)
	case "exec":
		return runExec(rest)
	case "kill":
		return runKill(rest)
	case "probe":
		return probe.Class(os.Stdout, os.Stderr)
	case probe.ChildCommand:
		return probe.Child(rest, os.Stdout)
	case "netprobe":
		return probe.Net(rest, os.Stdout, os.Stderr)
	case "listen":
		return probe.Listen(rest, os.Stdout, os.Stderr)
	case "version", "-version", "--version":
		fmt.Println("wardyn-rec", version)
		return 0
	case "help", "-h", "-help", "--help":
		io.WriteString(os.Stdout, usage)
		return 0
	default:
		if strings.HasPrefix(cmd, "-") {
			return runRecord(args[1:])
		}
		return fail(exitUsage, "unknown command %q; see wardyn-rec help", cmd)
	}
}

// fail prints one line on standard error and returns code.
func fail(code int, format string, a ...any) int {
	fmt.Fprintf(os.Stderr, "wardyn-rec: "+format+"\n", a...)
	return code
}
