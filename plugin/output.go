package plugin

import (
	"context"
	"fmt"

	"github.com/wardyn/nomad-driver-wardyn/internal/keeper"
	"github.com/wardyn/nomad-driver-wardyn/runner"
)

// carry stays with a task's output until all of it is delivered. Whoever moves
// it may die, and the engine may end its connections; then it is taken up again
// where it had got to.
func (p *Plugin) carry(b *Backend, t *task) {
	var pause backoff
	for {
		st, err := b.Outputs.Wait(t.ctx, t.output.ID)
		if t.ctx.Err() != nil {
			return
		}
		if err == nil && st.State == keeper.Ended && !running(t.ctx, b.Runner, t.state.Ref) {
			close(t.carried)
			return
		}
		if pause.sleep(t.ctx) != nil {
			return
		}
		p.resume(b, t)
	}
}

// resume takes a task's output up again, once it can.
func (p *Plugin) resume(b *Backend, t *task) {
	reader, ok := b.Runner.(runner.OutputReader)
	if !ok {
		p.taskLog(t).Error("this runner's output cannot be taken up again")
		return
	}
	var pause backoff
	for {
		lost, err := resumeOnce(t.ctx, b, t, reader)
		if t.ctx.Err() != nil {
			return
		}
		p.tellLost(t, lost)
		if err == nil {
			return
		}
		if pause.tries == 0 {
			p.taskLog(t).Warn("the task's output cannot be taken up yet; trying on", "error", err)
		}
		if pause.sleep(t.ctx) != nil {
			return
		}
	}
}

func resumeOnce(ctx context.Context, b *Backend, t *task, from runner.OutputReader) (int64, error) {
	ctx, cancel := context.WithTimeout(ctx, removeTimeout)
	defer cancel()
	st, err := b.Runner.AgentStatus(ctx, t.state.Ref, "")
	if err != nil {
		return 0, err
	}
	return b.Outputs.Resume(ctx, t.output, t.state.Ref, !st.State.Terminal(), from)
}

// running reports whether the main process may print more. One that cannot be
// asked about may.
func running(ctx context.Context, r runner.Runner, ref string) bool {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	st, err := r.AgentStatus(ctx, ref, "")
	return err != nil || !st.State.Terminal()
}

// tellLost says that output is lost for good, beside the line in the log itself.
func (p *Plugin) tellLost(t *task, lost int64) {
	switch {
	case lost > 0:
		p.events.emit(t.config, fmt.Sprintf("%d bytes of the task's output were lost while the driver was down", lost))
	case lost < 0:
		p.events.emit(t.config, "An unknown number of bytes of the task's output were lost while the driver was down")
	}
}
