package rec

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/wardyn/nomad-driver-wardyn/internal/rec/deliver"
)

const (
	defaultCastDir = "/var/log/wardyn"
	runTokenEnv    = "WARDYN_RUN_TOKEN"
	// defaultRecordingLimit bounds a recording inside the sandbox, in bytes: it
	// mostly lies in memory there, in the task's own. leastRecordingLimit is what
	// is taken for it at least.
	defaultRecordingLimit = 16 << 20
	leastRecordingLimit   = 64 << 10
)

// recordArgs is the command line of the recorder.
type recordArgs struct {
	castDir   string
	run       string // names the recording
	asciinema string // its program's name or path
	outDir    string // where to copy the recording to; "" is nowhere
	delivery  *deliver.Delivery
	limit     int64
	argv      []string
}

// isRunName reports whether a run's name is fit for a file's.
func isRunName(s string) bool {
	return s != "" && len(s) <= 100 && s[0] != '.' && s[0] != '-' && strings.IndexFunc(s, func(r rune) bool {
		return !plainLetter(r) && !strings.ContainsRune("._-", r)
	}) < 0
}

// plainLetter: ASCII letters and digits, which mean nothing to any shell.
func plainLetter(r rune) bool {
	return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9'
}

func parseRecord(args []string) (recordArgs, error) {
	var a recordArgs
	var upload, token string
	f := flag.NewFlagSet("wardyn-rec", flag.ContinueOnError)
	f.SetOutput(io.Discard)
	f.StringVar(&a.castDir, "cast-dir", defaultCastDir, "")
	f.StringVar(&a.run, "run", "", "")
	f.StringVar(&a.asciinema, "asciinema", "asciinema", "")
	f.StringVar(&a.outDir, "out-dir", "", "")
	f.StringVar(&upload, "upload-url", "", "")
	f.StringVar(&token, "run-token", os.Getenv(runTokenEnv), "")
	f.Int64Var(&a.limit, "limit", defaultRecordingLimit, "")
	if err := f.Parse(args); err != nil {
		return a, err
	}
	// What follows must be separated: "wardyn-rec -run R ls -l" is a slip.
	if n := len(args) - f.NArg(); f.NArg() == 0 || f.Arg(0) == "" || args[n-1] != "--" {
		return a, errors.New("a command is needed after --")
	}
	a.argv = f.Args()
	switch {
	case !isRunName(a.run):
		return a, fmt.Errorf("-run %q: want the run's id", a.run)
	case a.outDir != "" && upload != "":
		return a, errors.New("-out-dir and -upload-url exclude each other: what is copied is not masked")
	case a.limit < leastRecordingLimit:
		return a, fmt.Errorf("-limit %d: want %d or more", a.limit, leastRecordingLimit)
	}
	if upload == "" {
		return a, nil
	}
	var err error
	a.delivery, err = deliver.New(upload, token)
	return a, err
}

// file is where the recording lies in the sandbox.
func (a recordArgs) file() string { return filepath.Join(a.castDir, a.run+".cast") }
