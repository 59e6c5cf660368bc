package runnertest

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
)

// builtin are the programs every fake image has.
func builtin() map[string]Program {
	return map[string]Program{
		"true":  func(context.Context, *Process) int { return 0 },
		"false": func(context.Context, *Process) int { return 1 },
		"exit":  func(_ context.Context, p *Process) int { return number(p.Argv, 1) },
		"echo": func(_ context.Context, p *Process) int {
			fmt.Fprintln(p.Stdout, strings.Join(p.Argv[1:], " "))
			return 0
		},
		"cat": func(_ context.Context, p *Process) int {
			if _, err := io.Copy(p.Stdout, p.Stdin); err != nil {
				return 1
			}
			return 0
		},
		"sleep": sleep,
		"nc":    netcat,
		"sh":    shell,
		"idle":  Idle,
	}
}

// Idle runs until it is killed.
func Idle(ctx context.Context, _ *Process) int {
	<-ctx.Done()
	return 137
}

func number(argv []string, i int) int {
	if i >= len(argv) {
		return 0
	}
	n, err := strconv.Atoi(argv[i])
	if err != nil {
		return 2
	}
	return n
}

func sleep(ctx context.Context, p *Process) int {
	t := time.NewTimer(time.Duration(number(p.Argv, 1)) * time.Second)
	defer t.Stop()
	select {
	case <-t.C:
		return 0
	case <-ctx.Done():
		return 137
	}
}

// shell understands as much of sh as the suite speaks: "sh -c SCRIPT" and
// lines on standard input, each a list of commands parted by ";", with
// "echo WORDS", "echo WORDS >&2", "cat", "sleep N", "true", "false", "exit N".
func shell(ctx context.Context, p *Process) int {
	if len(p.Argv) > 2 && p.Argv[1] == "-c" {
		code, _ := runLine(ctx, p, p.Argv[2])
		return code
	}
	code, exited := 0, false
	for in := bufio.NewScanner(p.Stdin); !exited && in.Scan(); {
		if p.TTY { // a terminal shows what is typed
			fmt.Fprintf(p.Stdout, "$ %s\r\n", in.Text())
		}
		code, exited = runLine(ctx, p, in.Text())
	}
	return code
}

func runLine(ctx context.Context, p *Process, line string) (code int, exited bool) {
	for cmd := range strings.SplitSeq(line, ";") {
		argv := strings.Fields(cmd)
		if len(argv) == 0 {
			continue
		}
		prog, ok := builtin()[argv[0]]
		if !ok {
			fmt.Fprintf(p.Stderr, "sh: %s: not found\n", argv[0])
			code = 127
			continue
		}
		if argv[0] == "exit" {
			return number(argv, 1), true
		}
		child := &Process{Argv: argv, Stdin: p.Stdin, Stdout: p.Stdout, Stderr: p.Stderr}
		if last := len(argv) - 1; argv[last] == ">&2" {
			child.Argv, child.Stdout = argv[:last], p.Stderr
		}
		code = prog(ctx, child)
	}
	return code, false
}
