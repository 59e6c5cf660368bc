package cli

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/wardyn/nomad-driver-wardyn/internal/cast"
)

var recordingCommand = &command{
	name:    "recording",
	args:    "cat|play [-idle DURATION] FILE...",
	summary: "show recordings of tasks as text, or play them",
	text: `Reads recordings (.cast files of a task's wardyn folder, or any asciicast v2; "-" is
standard input). cat prints their text, without anything that acts on a terminal. play
writes what was recorded to this terminal at its own pace, with all that it does to a
terminal: play only what you would run a terminal for. Parts of one recording are named
in order.`,
	flags: func(fs *flag.FlagSet) { (&recordingOptions{}).bind(fs) },
	run:   runRecording,
}

type recordingOptions struct{ idle time.Duration }

func (o *recordingOptions) bind(fs *flag.FlagSet) {
	fs.DurationVar(&o.idle, "idle", 2*time.Second, "with play: no pause is longer than `DURATION`")
}

func runRecording(ctx context.Context, e Env, c *command, args []string) int {
	var o recordingOptions
	fs := flag.NewFlagSet(c.name, flag.ContinueOnError)
	o.bind(fs)
	words, ok, code := c.parseMixed(e, fs, args)
	if !ok {
		return code
	}
	if len(words) < 2 || words[0] != "cat" && words[0] != "play" {
		return e.report(usageError("recording: want cat or play, and a file"))
	}
	show := func(r io.Reader) error { return cast.Plain(e.Stdout, r) }
	if words[0] == "play" {
		show = func(r io.Reader) error {
			return cast.Play(e.Stdout, r, o.idle, func(d time.Duration) { pause(ctx, d) })
		}
	}
	for _, path := range words[1:] {
		if err := showFile(path, show); err != nil {
			return e.report(fmt.Errorf("%s: %w", path, err))
		}
	}
	return exitOK
}

func showFile(path string, show func(io.Reader) error) error {
	if path == "-" {
		return show(os.Stdin)
	}
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close() // it was only read
	return show(f)
}

// pause waits until ctx ends at the longest.
func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}
