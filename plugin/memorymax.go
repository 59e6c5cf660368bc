package plugin

import (
	"fmt"

	"github.com/wardyn/nomad-driver-wardyn/plugin/internal/wire/driverpb"
)

// tellDroppedMax emits an event when a job's memory_max is not in force. Nomad's
// scheduler drops it where it does not allow oversubscription, and neither the
// task's resources nor its environment have a trace of it then: only an agent
// that the operator named can tell.
func (p *Plugin) tellDroppedMax(t *task) {
	host, _ := p.options()
	tc := t.config
	if host.AgentAPI == nil || hasMemoryMax(tc) {
		return
	}
	a, err := host.AgentAPI.allocation(p.life, tc.GetAllocId(), tc.GetNamespace())
	if err != nil {
		p.taskLog(t).Warn("the agent could not be asked what the job's memory_max is", "error", err)
		return
	}
	switch asked := a.memoryMax(tc.GetTaskGroupName(), tc.GetName()); {
	case asked < 0:
		p.events.emit(tc, droppedMax("no limit"))
	case asked > 0:
		p.events.emit(tc, droppedMax(fmt.Sprintf("%d MiB", asked)))
	}
}

func droppedMax(asked string) string {
	return fmt.Sprintf("memory_max (%s) is not in force: the scheduler does not allow memory oversubscription, so memory is the limit; "+
		"it is allowed by nomad operator scheduler set-config -memory-oversubscription=true, for what is placed from then on", asked)
}

func hasMemoryMax(tc *driverpb.TaskConfig) bool {
	return tc.GetResources().GetAllocatedResources().GetMemory().GetMemoryMaxMb() != 0
}
