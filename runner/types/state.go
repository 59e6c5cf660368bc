package types

// RunState is the observed state of a run.
type RunState string

// Which states end a run is what [RunState.Terminal] says. A main process
// that ended by itself is StateStopped, or StateFailed with an exit code but 0.
const (
	StatePending   RunState = "PENDING"
	StateStarting  RunState = "STARTING"
	StateRunning   RunState = "RUNNING"
	StateWaiting   RunState = "WAITING_FOR_CONFIRMATION" // reserved, never produced
	StateStopped   RunState = "STOPPED"
	StateArchived  RunState = "ARCHIVED" // reserved
	StateFailed    RunState = "FAILED"
	StateKilled    RunState = "KILLED"
	StateCompleted RunState = "COMPLETED"
)

// Terminal reports whether a run in this state will never run again.
func (s RunState) Terminal() bool {
	switch s {
	case StateCompleted, StateFailed, StateKilled, StateStopped, StateArchived:
		return true
	}
	return false
}
