package rec

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// initArgs is the command line of init.
type initArgs struct {
	tty    bool   // the command gets the terminal of standard input
	idle   bool   // no command, stay up
	gate   string // file to wait for; "" is none
	stages string // file that says what to run before the command
	argv   []string
}

func parseInit(args []string) (initArgs, error) {
	var a initArgs
	for i := 0; i < len(args); i++ {
		switch s := args[i]; {
		case s == "-tty":
			a.tty = true
		case s == "-stages" && i+1 < len(args):
			i++
			a.stages = args[i]
		case s == "-idle":
			a.idle = true
		case s == "-gate" && i+1 < len(args):
			i++
			a.gate = args[i]
		case s == "--":
			a.argv = args[i+1:]
			return a, a.check()
		default:
			return a, fmt.Errorf("init: unknown argument %q before --", s)
		}
	}
	return a, a.check()
}

// onlyStages: the stages are all there is to do.
func (a initArgs) onlyStages() bool { return a.stages != "" && a.argv == nil && !a.idle }

func (a initArgs) check() error {
	switch {
	case a.idle && len(a.argv) > 0:
		return errors.New("init: -idle takes no command")
	case a.onlyStages():
	case !a.idle && (len(a.argv) == 0 || a.argv[0] == ""):
		return errors.New("init: a command is needed after --")
	}
	return nil
}

// execArgs is the command line of exec.
type execArgs struct {
	cols, rows uint16 // 0: leave the terminal's size alone
	id         string
	argv       []string
}

// parseExec also serves kill, which finds an exec by the command line it shows.
func parseExec(args []string) (execArgs, error) {
	var a execArgs
	for len(args) >= 2 && (args[0] == "-cols" || args[0] == "-rows") {
		n, err := strconv.ParseUint(args[1], 10, 16)
		if err != nil {
			return a, fmt.Errorf("exec: %s %q: a number up to 65535 is needed", args[0], args[1])
		}
		if args[0] == "-cols" {
			a.cols = uint16(n)
		} else {
			a.rows = uint16(n)
		}
		args = args[2:]
	}
	if len(args) < 2 || args[0] == "" || strings.HasPrefix(args[0], "-") || args[1] != "--" {
		return a, errors.New("exec: [-cols N -rows N] ID -- argv... is needed")
	}
	a.id, a.argv = args[0], args[2:]
	if len(a.argv) == 0 || a.argv[0] == "" {
		return a, errors.New("exec: a command is needed after --")
	}
	return a, nil
}
