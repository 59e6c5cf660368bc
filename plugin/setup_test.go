package plugin

import (
	"context"
	"errors"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/wardyn/nomad-driver-wardyn/driver"
	"github.com/wardyn/nomad-driver-wardyn/plugin/internal/wire/driverpb"
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
}
