// Command wardyn-rec runs inside a sandbox: as its pid 1, as the first process
// of every exec, and as the program of the probes. See internal/rec.
package main

import (
	"os"

	"github.com/wardyn/nomad-driver-wardyn/internal/rec"
)

// version is set by the build.
var version = "devel"

func main() { os.Exit(rec.Main(os.Args, version)) }
