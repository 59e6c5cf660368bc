package wire

import (
	"fmt"

	"google.golang.org/protobuf/proto"

	"github.com/wardyn/nomad-driver-wardyn/plugin/internal/wire/driverpb"
)

// IncompleteError says that an answer lacks a field without which a client ends or goes
// wrong.
type IncompleteError struct {
	Message string // name of the answer
	Field   string // path of the unset field
	Harm    string // what a client does with it
}

func (e *IncompleteError) Error() string {
	return fmt.Sprintf("%s without %s: %s", e.Message, e.Field, e.Harm)
}

const crashes = "the client crashes"

// CheckAnswer reports an answer of a plugin that lacks what clients rely on, as an
// [IncompleteError]. Messages without such a rule pass.
func CheckAnswer(m proto.Message) error {
	switch r := m.(type) {
	case *driverpb.TaskStatsResponse:
		return firstMissing(r,
			need{"stats", r.GetStats() != nil, crashes},
			need{"stats.agg_resource_usage", r.GetStats().GetAggResourceUsage() != nil, crashes},
			need{"stats.timestamp", r.GetStats().GetTimestamp() != nil, "the sample is lost"})
	case *driverpb.WaitTaskResponse:
		return firstMissing(r, need{"result", r.GetResult() != nil, crashes})
	case *driverpb.ExecTaskResponse:
		return firstMissing(r, need{"result", r.GetResult() != nil, crashes})
	case *driverpb.InspectTaskResponse:
		return firstMissing(r,
			need{"task", r.GetTask() != nil, crashes},
			need{"task.result", r.GetTask().GetResult() != nil, crashes},
			need{"task.started_at", r.GetTask().GetStartedAt() != nil, "the client refuses it"},
			need{"task.completed_at", r.GetTask().GetCompletedAt() != nil, "the client refuses it"})
	case *driverpb.StartTaskResponse:
		return firstMissing(r,
			need{"handle", r.GetHandle() != nil, "the task is started twice after an agent restart"},
			need{"handle.config", r.GetHandle().GetConfig() != nil, "recovery calls come without an id"},
			need{"handle.version", r.GetHandle().GetVersion() > 0, "0 is the state format before 0.9"},
			need{"a failure as an error", r.GetResult() == driverpb.StartTaskResponse_SUCCESS,
				"the client takes every answer for success"})
	default:
		return checkSmallAnswer(m)
	}
}

func checkSmallAnswer(m proto.Message) error {
	switch r := m.(type) {
	case *driverpb.CapabilitiesResponse:
		return firstMissing(r, need{"capabilities", r.GetCapabilities() != nil, "the isolation mode is unnamed"})
	case *driverpb.TaskConfigSchemaResponse:
		return firstMissing(r, need{"spec", r.GetSpec().GetBlock() != nil, "every task of the driver fails"})
	case *driverpb.DriverTaskEvent:
		return firstMissing(r,
			need{"alloc_id", r.GetAllocId() != "", "the event cannot be routed"},
			need{"task_name", r.GetTaskName() != "", "the event cannot be routed"},
			need{"timestamp", r.GetTimestamp() != nil, "the event is dated 1970"})
	case *driverpb.ExecTaskStreamingResponse:
		return firstMissing(r, need{"result", !r.GetExited() || r.GetResult() != nil, "the exit code is lost"})
	}
	return nil
}

// need is one field an answer must have.
type need struct {
	field string
	met   bool
	harm  string
}

func firstMissing(m proto.Message, needs ...need) error {
	for _, n := range needs {
		if !n.met {
			return &IncompleteError{
				Message: string(m.ProtoReflect().Descriptor().Name()), Field: n.field, Harm: n.harm,
			}
		}
	}
	return nil
}
