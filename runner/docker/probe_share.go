package docker

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/wardyn/nomad-driver-wardyn/internal/datadir"
)

// sharedVerdicts is a folder on tmpfs with the good verdicts of this node's
// probes, a file each. What a probe finds out is true of engine and runtime,
// not of the process that asked: a plugin that starts again, and a "run" with a
// data dir of its own, need not ask what another has just been answered. The
// zero value shares nothing.
type sharedVerdicts struct{ dir string }

// goodVerdict is what such a file holds. The names are for people.
type goodVerdict struct {
	Class   string    `json:"class"`
	Runtime string    `json:"runtime"`
	At      time.Time `json:"at"`
}

// recall is when the subject was last shown to work on that engine, by a program
// such as this; false when nobody says so, or it is too long ago.
func (v sharedVerdicts) recall(s subject, key string, now time.Time) (time.Time, bool) {
	if v.dir == "" || datadir.CheckShared(v.dir) != nil {
		return time.Time{}, false
	}
	b, err := os.ReadFile(v.file(s, key))
	if err != nil {
		return time.Time{}, false
	}
	var g goodVerdict
	if json.Unmarshal(b, &g) != nil || g.At.After(now) || now.Sub(g.At) >= goodLife {
		return time.Time{}, false
	}
	return g.At, true
}

// remember notes that the subject works, and drops what has aged.
func (v sharedVerdicts) remember(s subject, key string, now time.Time) error {
	if v.dir == "" {
		return nil
	}
	if err := datadir.MakeShared(v.dir); err != nil {
		return err
	}
	v.prune(now)
	b, err := json.Marshal(goodVerdict{Class: string(s.class), Runtime: s.runtime, At: now.UTC()})
	if err != nil {
		return err
	}
	return datadir.WriteFile(v.file(s, key), b)
}

// forget drops what is noted of a subject.
func (v sharedVerdicts) forget(s subject, key string) {
	if v.dir != "" && datadir.CheckShared(v.dir) == nil {
		_ = os.Remove(v.file(s, key)) // mostly there is none
	}
}

func (v sharedVerdicts) prune(now time.Time) {
	entries, _ := os.ReadDir(v.dir)
	for _, e := range entries {
		if fi, err := e.Info(); err == nil && now.Sub(fi.ModTime()) >= goodLife {
			_ = os.Remove(filepath.Join(v.dir, e.Name())) // another process may have been faster
		}
	}
}

// file names the verdict by all that it depends on.
func (v sharedVerdicts) file(s subject, key string) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%q %q %q %q", s.class, s.runtime, key, program()))
	return filepath.Join(v.dir, hex.EncodeToString(sum[:]))
}

// program tells this program's file from any other, also from a newer one at
// the same path, whose probes may be stricter.
func program() string {
	fi, err := os.Stat("/proc/self/exe")
	if err != nil {
		return ""
	}
	st, ok := fi.Sys().(*syscall.Stat_t)
	if !ok {
		return ""
	}
	return fmt.Sprint(st.Dev, " ", st.Ino, " ", fi.Size(), " ", fi.ModTime().UnixNano())
}

// sharedKey is the engine's key among processes. A process that has seen the
// engine away believes no verdict of another: false.
func (r *Runner) sharedKey(host hostFacts) (string, bool) {
	return host.BootID + " " + r.engineKeyAt(host, 0), r.findings.generation() == 0
}

// recall takes over what another process found out, when that still stands.
func (r *Runner) recall(s subject, key string, host hostFacts) {
	now := time.Now()
	if shared, ok := r.sharedKey(host); ok && !r.findings.has(s, key) {
		if at, ok := r.verdicts.recall(s, shared, now); ok {
			r.findings.adopt(s, key, at)
		}
	}
}

// share leaves a verdict to other processes. One that says no is nobody else's:
// whoever mends the runtime must not have to wait for it. But it takes an
// earlier yes away, so that the others find out for themselves.
func (r *Runner) share(s subject, host hostFacts, v verdict) {
	key, _ := r.sharedKey(host)
	if v.err != nil {
		r.verdicts.forget(s, key)
		return
	}
	if v.left {
		return
	}
	if err := r.verdicts.remember(s, key, time.Now()); err != nil {
		r.opts.Log.Warn("a verdict is not shared with other processes", "error", err)
	}
}
