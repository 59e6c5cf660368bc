package cli

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"github.com/wardyn/nomad-driver-wardyn/internal/datadir"
)

const (
	// dismissed is what a run says that has cleaned up by itself.
	dismissed = "dismissed"
	// pluginDeath is how long the plugin of a run that was killed may take to die.
	pluginDeath = 10 * time.Second
	// lateCreate is how long an engine may still be at what a plugin that was
	// killed had asked it for.
	lateCreate = 2 * time.Second
	// settleTimeout bounds the clean-up.
	settleTimeout = 5 * time.Minute
)

var caretakerCommand = &command{
	name:    "caretaker",
	summary: "clean up after a run that was killed",
	text: "Started by run, which tells it on standard input what it would leave behind; there\n" +
		"is no reason to call it by hand. It ends with its run, after it has removed what\n" +
		"one that was killed could not.",
	hidden: true,
	run: func(ctx context.Context, e Env, c *command, args []string) int {
		if len(args) > 0 {
			return e.report(usageError("caretaker: no argument is wanted"))
		}
		return e.report(caretake(ctx, e, os.Stdin))
	},
}

// estate is what a run has outside its own process.
type estate struct {
	Config    map[string]any `json:"config"`
	Temp      string         `json:"temp"`
	Data      string         `json:"data"`
	AllocRoot string         `json:"alloc_root"`
	AllocDir  string         `json:"alloc_dir"`
	Made      []string       `json:"made"`
	Keep      bool           `json:"keep"`
	Tokens    []string       `json:"tokens"` // see tokenFiles
}

// appoint starts a caretaker for the run. It is in a session of its own, so
// that what is sent to the run's group does not reach it. The function it
// returns is for a run that has cleaned up by itself. Where there is no program
// to start, no process of ours could outlive the run either.
func appoint(e Env, of estate) (dismiss func() error, err error) {
	if e.Executable == "" {
		return func() error { return nil }, nil
	}
	will, err := json.Marshal(of)
	if err != nil {
		return nil, fmt.Errorf("caretaker: %w", err)
	}
	cmd := exec.Command(e.Executable, caretakerCommand.name)
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("caretaker: %w", err)
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("caretaker: %w", err)
	}
	if _, err := in.Write(append(will, '\n')); err != nil {
		return nil, errors.Join(fmt.Errorf("caretaker: %w", err), in.Close(), cmd.Wait())
	}
	return func() error {
		_, err := io.WriteString(in, dismissed)
		if err = errors.Join(err, in.Close(), cmd.Wait()); err != nil {
			return fmt.Errorf("caretaker: %w", err)
		}
		return nil
	}, nil
}

// caretake reads what there is to take care of and waits for the run's end.
func caretake(ctx context.Context, e Env, from io.Reader) error {
	in := bufio.NewReader(from)
	line, err := in.ReadBytes('\n')
	if err != nil {
		return fmt.Errorf("caretaker: the run ended at once: %w", err)
	}
	var of estate
	if err := json.Unmarshal(line, &of); err != nil {
		return fmt.Errorf("caretaker: %w", err)
	}
	if last, _ := io.ReadAll(in); string(last) == dismissed {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, settleTimeout)
	defer cancel()
	return of.settle(ctx, e)
}

// settle removes everything.
func (of estate) settle(ctx context.Context, e Env) error {
	if _, err := os.Stat(of.Data); err == nil && e.Purge != nil {
		if d, err := datadir.Open(of.Data); err == nil {
			claim := d.Claim()
			// Whether the plugin has let go or not, its sandboxes have to end.
			_ = claim.Take(ctx, pluginDeath)
			claim.Give()
		}
		// What this one does not find yet, that of remove does.
		_ = e.Purge(ctx, of.Config, true)
		time.Sleep(lateCreate)
	}
	w := &workspace{temp: of.Temp, data: of.Data, alloc: of.AllocRoot, made: of.Made, keep: of.Keep}
	errs := []error{unmountSecrets(of.AllocDir)}
	if of.Keep {
		errs = append(errs, removeTokens(of.AllocDir, of.Tokens))
	} else {
		errs = append(errs, removeTree(of.AllocDir))
	}
	return errors.Join(append(errs, w.remove(ctx, e, of.Config, nil))...)
}

// unmountSecrets takes the secrets of every task of an allocation out of memory.
func unmountSecrets(allocDir string) error {
	f, err := os.Open("/proc/self/mountinfo")
	if err != nil {
		return err
	}
	defer f.Close()
	mounted, err := mountsBelow(f, allocDir)
	if err != nil {
		return err
	}
	var errs []error
	for _, m := range mounted {
		if filepath.Base(m) == "secrets" && filepath.Dir(filepath.Dir(m)) == allocDir {
			errs = append(errs, syscall.Unmount(m, syscall.MNT_DETACH))
		}
	}
	return errors.Join(errs...)
}
