package protocol

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/wardyn/nomad-driver-wardyn/internal/testenv"
	"github.com/wardyn/nomad-driver-wardyn/plugin/host"
)

// TestTrap5WrongPluginConfig: one message holds every fault, and the process
// that was to try the configuration is gone.
func TestTrap5WrongPluginConfig(t *testing.T) {
	r := &rig{endpoint: "tcp://192.0.2.1:1", binary: testenv.Driver(t), data: "not/absolute", node: host.LocalNode(), events: &eventLog{}, log: &output{}}
	config := r.config()
	config["subnet_pool"] = "10.0.0.0/33"
	config["cpu_cap"] = -1
	config["allow_domains"] = []any{"https://a.example/"}
	config["confinement"] = []any{map[string]any{"minimum": "CC9"}}
	p, err := host.Launch(deadline(t), r.options(config))
	if err == nil {
		p.Close()
		t.Fatal("a wrong configuration was taken")
	}
	for _, part := range []string{"data_dir", "endpoint", "subnet_pool", "cpu_cap", "allow_domains", "CC9"} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("the message lacks %q: %v", part, err)
		}
	}
}

// TestTrap44HugeEnvironment: more than gRPC takes by itself. It must come
// through to an answer, and the plugin must live on.
func TestTrap44HugeEnvironment(t *testing.T) {
	r := newRig(t)
	pid := r.Pid()
	w := r.prepare(t, "CC1", `env | wc -c`, func(s *host.TaskSpec) {
		s.Env = map[string]string{}
		for i := range 80 {
			s.Env[fmt.Sprintf("BIG_%02d", i)] = strings.Repeat("x", 64<<10)
		}
	})
	err := w.Start(deadline(t))
	if err != nil && strings.Contains(err.Error(), "received message larger than max") {
		t.Errorf("gRPC's own limit: %v", err)
	}
	if err == nil {
		// An exec takes two megabytes of arguments and environment as a rule.
		exit, werr := w.Wait(deadline(t))
		if werr != nil || exit.Successful() && w.out.Len() == 0 {
			t.Errorf("exit %+v, %v", exit, werr)
		}
	}
	if r.Pid() != pid {
		t.Error("the plugin died of it")
	}
	again := r.start(t, "CC1", "exit 4")
	again.exits(t, 4)
}

// TestTraps26And33: no log collection, and mistakes of the job: errors that
// are none of the node's (traps 8, 9), each with every fault.
func TestTraps26And33(t *testing.T) {
	r := newRig(t)
	w := r.start(t, "CC1", "echo nobody; exit 3", func(s *host.TaskSpec) { s.Logs.Disabled = true })
	w.exits(t, 3)

	bad := r.prepare(t, "CC7", "true", func(s *host.TaskSpec) {
		s.Config["privileged"] = true
		s.Config["work_dir"] = "not/absolute"
	})
	err := bad.Start(deadline(t))
	if err == nil || host.IsRecoverable(err) {
		t.Fatalf("a bad configuration: %v, recoverable %v", err, host.IsRecoverable(err))
	}
	for _, part := range []string{"CC7", "privileged", "work_dir"} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("the message lacks %q: %v", part, err)
		}
	}
}

// TestTrap23LogAfterAnAgentCrash: nobody reads the plugin's standard error any
// more; it must outlive what it says into that. Traps 5 and 21: loading beside
// it takes nothing from it.
func TestTrap23LogAfterAnAgentCrash(t *testing.T) {
	r := newRig(t)
	w := r.start(t, "CC1", awaitGo+"exit 8")
	h, left := w.stored(t), r.Detach()
	r.Plugin = r.launch(t, left)
	w.resume(t, h)
	// Starts and ends are logged.
	for range 3 {
		r.start(t, "CC1", "exit 2").exits(t, 2)
	}
	w.release(t)
	w.exits(t, 8)
	if r.Pid() != left.Pid {
		t.Errorf("plugin process %d, was %d", r.Pid(), left.Pid)
	}
	if _, err := os.Stat(fmt.Sprint("/proc/", left.Pid)); err != nil {
		t.Errorf("the plugin that was left is gone: %v", err)
	}
}
