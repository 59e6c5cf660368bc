package protocol

import (
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/wardyn/nomad-driver-wardyn/plugin/host"
)

// ask makes a request of the sidecar for a host, from inside.
const ask = `wget -q -O /dev/null http://blocked.example/ ; `

// TestEvents: a start and a refusal are told to the client.
func TestEvents(t *testing.T) {
	r := newRig(t)
	bothAtOnce(t, func(t *testing.T, class string) {
		w := r.start(t, class, ask+awaitGo)
		r.told(t, w.ID(), "started under "+class)
		e := r.told(t, w.ID(), "blocked.example")
		for _, part := range []string{"refused", "blocked.example:80", "policy:default-deny", "egress"} {
			if !strings.Contains(e.Message, part) {
				t.Errorf("the event lacks %q: %s", part, e.Message)
			}
		}
		if e.AllocID != w.at.ID || e.TaskName != "main" || e.Time.IsZero() {
			t.Errorf("event %+v", e)
		}
		w.release(t)
		w.exits(t, 0)
	})
}

// TestTrap45BytesThatAreNoText: what a task says of itself is no valid UTF-8,
// and every answer still comes through.
func TestTrap45BytesThatAreNoText(t *testing.T) {
	r := newRig(t)
	w := r.start(t, "CC1", `printf '\377\376\n'; `+
		`printf 'GET http://bad\377host.example/ HTTP/1.1\r\nHost: bad\377host.example\r\n\r\n' | nc -w 5 wardyn-proxy 3128; `+
		`printf 'CONNECT bad\377.example:443 HTTP/1.1\r\nHost: x\r\n\r\n' | nc -w 5 wardyn-proxy 3128; `+ask+awaitGo)
	r.told(t, w.ID(), "blocked.example") // of the last refusal
	for _, e := range r.events.of(w.ID()) {
		if !utf8.ValidString(e.Message) {
			t.Errorf("event %q", e.Message)
		}
	}
	if res, err := r.ExecTask(deadline(t), w.ID(), []string{"/bin/sh", "-c", `printf '\377\376'`}, 0); err != nil || string(res.Stdout) != "\xff\xfe" {
		t.Errorf("check: %q, %v", res.Stdout, err)
	}
	// The name of the program comes back in the error.
	if res, err := r.ExecTask(deadline(t), w.ID(), []string{"/bin/sh", "-c", `exec "$(printf '/no/\377')"`}, 0); err != nil || res.Exit.ExitCode != 127 {
		t.Errorf("exec of nothing: %+v, %v", res, err)
	}
	if exit, out, _ := w.sh(t, `printf '\377'`, nil); exit.ExitCode != 0 || out != "\xff" {
		t.Errorf("exec: %+v, %q", exit, out)
	}
	w.release(t)
	w.exits(t, 0)
	if !w.out.has("\xff\xfe\n") {
		t.Errorf("output %q", w.out.String())
	}
}

// TestStats: samples come, with memory in them.
func TestStats(t *testing.T) {
	r := newRig(t)
	bothAtOnce(t, func(t *testing.T, class string) {
		w := r.start(t, class, up, func(s *host.TaskSpec) { s.StatsInterval = 200 * time.Millisecond })
		eventually(t, "a sample with memory in it", func() bool {
			m := w.Usage().Memory
			return m.RSS > 0 || m.Usage > 0
		})
		if err := r.DestroyTask(deadline(t), w.ID(), true); err != nil {
			t.Error(err)
		}
	})
}

// TestK12OOM: a task that is killed for memory is reported so.
func TestK12OOM(t *testing.T) {
	r := newRig(t)
	w := r.start(t, "CC1", "tail /dev/zero", func(s *host.TaskSpec) { s.Resources.MemoryMB = 16 })
	if exit := w.exits(t, 137); !exit.OOMKilled || !strings.Contains(exit.Err, "killed for memory") {
		t.Errorf("exit %+v, want it killed for memory, and to say so", exit)
	}
}
