package plugin

import (
	"context"
	"fmt"
	"time"

	"github.com/wardyn/nomad-driver-wardyn/internal/keeper"
	"github.com/wardyn/nomad-driver-wardyn/runner"
)

// exitLag is how long the engine may still call a main process running whose
// output has ended.
const exitLag = time.Second

// carry stays with a task's output until all of it is delivered. Whoever moves
// it may die, and the engine may end its connections; then it is taken up again
// where it had got to. An engine that dies ends them as a process does that has
// nothing more to say, so an end counts when the engine is there to confirm it,
// or when its log has been read since the process was down: whole says so.
func (p *Plugin) carry(b *Backend, t *task, whole bool) {
	var pause backoff
	for turn := 0; ; { // of the task's parkings, from before whole was found
		st, err := b.Outputs.Wait(t.ctx, t.output.ID)
		if t.ctx.Err() != nil {
			return
		}
		if err == nil && st.State == keeper.Ended && (whole || confirmedDown(t.ctx, b.Runner, t.state.Ref)) {
			if !t.parking.sitOut(t.ctx, turn) {
				close(t.carried)
				return
			}
			pause = backoff{} // a parked task goes on, with more output
		}
		if pause.sleep(t.ctx) != nil {
			return
		}
		turn = t.parking.turns()
		whole = p.resume(b, t)
	}
}

// resume takes a task's output up again, once it can. whole reports that no
// more of it will come than is on its way.
func (p *Plugin) resume(b *Backend, t *task) (whole bool) {
	reader, ok := b.Runner.(runner.OutputReader)
	if !ok {
		p.taskLog(t).Error("this runner's output cannot be taken up again")
		return true
	}
	var pause backoff
	for {
		got, err := resumeOnce(t.ctx, b, t, reader)
		if t.ctx.Err() != nil {
			return false
		}
		p.tellLost(t, got.Lost)
		if err == nil {
			return got.Whole
		}
		if pause.tries == 0 {
			p.taskLog(t).Warn("the task's output cannot be taken up yet; trying on", "error", err)
		}
		if pause.sleep(t.ctx) != nil {
			return false
		}
	}
}

func resumeOnce(ctx context.Context, b *Backend, t *task, from runner.OutputReader) (keeper.Resumed, error) {
	ctx, cancel := context.WithTimeout(ctx, removeTimeout)
	defer cancel()
	st, err := b.Runner.AgentStatus(ctx, t.state.Ref, "")
	if err != nil {
		return keeper.Resumed{}, err
	}
	return b.Outputs.Resume(ctx, t.output, t.state.Ref, !st.State.Terminal(), from)
}

// confirmedDown reports whether the main process, whose output has ended, is
// down for all the engine knows. An engine that takes its time may have died
// and come back meanwhile: that confirms nothing.
func confirmedDown(ctx context.Context, r runner.Runner, ref string) bool {
	ctx, cancel := context.WithTimeout(ctx, exitLag)
	defer cancel()
	var pause backoff
	for {
		st, err := r.AgentStatus(ctx, ref, "")
		if err != nil {
			return false
		}
		if st.State.Terminal() {
			return true
		}
		if pause.sleep(ctx) != nil {
			return false
		}
	}
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
