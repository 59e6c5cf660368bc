package plugin

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/wardyn/nomad-driver-wardyn/driver"
	"github.com/wardyn/nomad-driver-wardyn/internal/testenv"
	"github.com/wardyn/nomad-driver-wardyn/plugin/internal/wire/driverpb"
	"github.com/wardyn/nomad-driver-wardyn/runner"
	"github.com/wardyn/nomad-driver-wardyn/runner/runnertest"
)

// done is a builder whose setup is through at once.
type done struct{ driver.SetupBuilder }

func (done) BuildSetup(context.Context, driver.SetupSpec) (string, error) {
	return "rainier-env:default-1", nil
}

// A task that was started from its setup runs, whatever of the setup cannot be
// let go of; one whose start failed has failed for that, too.
func TestSetupLeftoversEndNoTask(t *testing.T) {
	b := newBench(t, benchOptions{})
	tc, _ := b.start("one", args("idle"))
	p := b.plugin()
	one, _ := p.tasks.get(TaskID(tc.ID))
	be, err := p.backend()
	if err != nil {
		t.Fatal(err)
	}
	config := proto.Clone(one.config).(*driverpb.TaskConfig)
	config.Id += "-two"
	pl, err := p.plan(b.ctx(), be, config)
	if err != nil {
		t.Fatal(err)
	}
	pl.Setup = &setupAsk{}
	s, err := setupOf(&pl, HostConfig{})
	if err != nil {
		t.Fatal(err)
	}
	b.outputs.mu.Lock()
	b.outputs.clung = errors.New("the keeper does not answer")
	b.outputs.mu.Unlock()
	defer func() {
		b.outputs.mu.Lock()
		defer b.outputs.mu.Unlock()
		b.outputs.clung = nil
	}()
	two := newTask(p.life, be, config, stateOf(pl, be.Ref(pl.Run)))
	if own := pl.Spec.Sandbox.Task; s.Sandbox.Task.CPUShares != own.CPUShares || own.CPUShares == 0 {
		t.Errorf("the setup has the CPU weight %d, its task %d", s.Sandbox.Task.CPUShares, own.CPUShares)
	}
	p.listen(two)
	if err := p.buildAndStart(b.ctx(), be, two, done{}, s, &pl); err != nil {
		t.Errorf("a task that runs failed: %v", err)
	}
	if !p.tasks.has(two.state.Ref) {
		t.Error("the task is not looked after")
	}
	over, cancel := context.WithCancel(t.Context())
	cancel()
	err = p.buildAndStart(over, be, two, done{}, s, &pl)
	if !errors.Is(err, context.Canceled) || !errors.Is(err, b.outputs.clung) {
		t.Errorf("a start that failed: %v", err)
	}
	// What fails behind the setup is no fault of the setup's.
	p.setupFailed(two, false, err)
	if o, ended := two.exit(); !ended || o.Code != -1 || !strings.HasPrefix(o.Err, "the setup is done, and the task could not be started: ") {
		t.Errorf("it ended: %v, %+v", ended, o)
	}
}

// asking is a builder that is through with its script at once.
type asking struct{ driver.SetupBuilder }

func (asking) BuildSetup(ctx context.Context, s driver.SetupSpec) (string, error) {
	return "rainier-env:default-1", s.Through(ctx, "ref")
}

// K37: a setup is held to its task's limit of disk use, while its script runs and
// before what it made is kept, and says so.
func TestK37SetupIsHeldToTheDisk(t *testing.T) {
	used := &atomic.Int64{}
	used.Store(121)
	b := newBench(t, benchOptions{
		config: map[string]any{"max_disk": 100},
		wrap:   func(r runner.Runner) runner.Runner { return fillingRunner{r.(*runnertest.Fake), used} },
	})
	tc, _ := b.start("one", args("idle"))
	p := b.plugin()
	one, _ := p.tasks.get(TaskID(tc.ID))
	be, err := p.backend()
	if err != nil {
		t.Fatal(err)
	}
	config := proto.Clone(one.config).(*driverpb.TaskConfig)
	config.Id += "-two"
	pl, err := p.plan(b.ctx(), be, config)
	if err != nil {
		t.Fatal(err)
	}
	pl.Setup = &setupAsk{}
	s, err := setupOf(&pl, HostConfig{})
	if err != nil {
		t.Fatal(err)
	}
	two := newTask(p.life, be, config, stateOf(pl, be.Ref(pl.Run)))
	p.listen(two)
	const says = "The setup has 121 MiB on disk, and its limit is 100 MiB (storage_opt.size"
	if err := p.buildAndStart(b.ctx(), be, two, asking{}, s, &pl); err == nil || !strings.Contains(err.Error(), says) {
		t.Errorf("when it is through: %v", err)
	}
	ctx, end := context.WithCancelCause(b.ctx())
	defer end(nil)
	p.watchSetup(be, two, &s, time.Millisecond, end)
	go s.Watch(ctx, "ref")
	testenv.Await(t, "the end of the setup", ctx.Done())
	if err := context.Cause(ctx); !strings.Contains(err.Error(), says) {
		t.Errorf("while it runs: %v", err)
	}
	used.Store(120)
	if err := s.Through(b.ctx(), "ref"); err != nil {
		t.Errorf("a fifth over the limit: %v", err)
	}
}
