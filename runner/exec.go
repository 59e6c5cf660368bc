package runner

import (
	"context"
	"io"
)

// AttachOptions configures an interactive attach; zero values mean 80x24.
type AttachOptions struct {
	Cols uint16
	Rows uint16
}

// Session is a live interactive terminal in a running sandbox. One reader and
// one writer may use it at the same time.
type Session interface {
	// Read returns terminal output; io.EOF when the shell exits or the session is closed.
	Read(p []byte) (int, error)
	// Write sends keystrokes.
	Write(p []byte) (int, error)
	// Resize tells the terminal its size.
	Resize(ctx context.Context, cols, rows uint16) error
	// Close detaches. The sandbox, its agent and its sidecar go on.
	Close() error
}

// ExecSpec describes one process launched through Runner.ExecStream.
type ExecSpec struct {
	Argv []string
	// Env is added to the sandbox's own environment, as "K=V".
	Env []string
	// TTY asks for a terminal, which merges stderr into stdout.
	TTY bool
	// Cols and Rows are the terminal's first size (TTY only); zero means 80x24.
	Cols, Rows uint16
}

// ExecSession is a live stream into one process started by ExecStream. It is a
// struct of streams and functions, so that a fake may fill in what it needs.
//
// Without a TTY, Stdout and Stderr are unbuffered pipes fed by one goroutine
// off one connection: whoever reads Stdout must drain Stderr at the same time,
// or both and Wait stand still.
type ExecSession struct {
	// Stdin writes to the process. Close half-closes: output keeps flowing.
	Stdin io.WriteCloser
	// Stdout is standard output, and standard error as well under a TTY.
	Stdout io.Reader
	// Stderr is standard error; under a TTY it reads io.EOF at once.
	Stderr io.Reader
	// Resize sets the terminal's size; a no-op returning nil without a TTY.
	Resize func(cols, rows uint16) error
	// Wait blocks until the process has exited and returns its exit code.
	Wait func() (int, error)
	// Close ends this stream and its process, nothing else.
	Close func() error
}
