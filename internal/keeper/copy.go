package keeper

import (
	"bytes"
	"context"
	"io"

	"github.com/wardyn/nomad-driver-wardyn/runner"
)

// Copy is a sink that copies within this process: for tests, and for hosts
// whose output need not survive it. onEnd, when not nil, is called with the
// outcome of each stream that ends.
func Copy(stdoutTo, stderrTo io.Writer, onEnd func(error)) runner.OutputSink {
	return copySink{[streams]io.Writer{stdoutTo, stderrTo}, onEnd}
}

type copySink struct {
	to    [streams]io.Writer
	onEnd func(error)
}

func (c copySink) Follow(_ context.Context, _ string, o runner.OutputStream) error {
	go func() {
		defer o.Conn.Close()
		err := pump(io.MultiReader(bytes.NewReader(o.Early), o.Conn), o.Framed, func(s stream, b []byte) error {
			_, err := c.to[s].Write(b)
			return err
		})
		if c.onEnd != nil {
			c.onEnd(err)
		}
	}()
	return nil
}
