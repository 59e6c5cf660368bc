package host

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"google.golang.org/protobuf/proto"

	"github.com/wardyn/nomad-driver-wardyn/plugin/internal/wire"
	"github.com/wardyn/nomad-driver-wardyn/plugin/internal/wire/basepb"
	"github.com/wardyn/nomad-driver-wardyn/plugin/internal/wire/driverpb"
	"github.com/wardyn/nomad-driver-wardyn/plugin/internal/wire/hclspec"
)

// Trap names a way in which a plugin can end a real client, or make it go wrong without a
// word.
type Trap string

// The traps this package looks for. The first six end a client.
const (
	TrapStats         Trap = "stats without usage"            // 1
	TrapWaitResult    Trap = "wait without result"            // 2
	TrapResult        Trap = "exec or inspect without result" // 3
	TrapLogLine       Trap = "log line with a non-string key" // 4
	TrapLoad          Trap = "bad answer while loading"       // 5
	TrapSchema        Trap = "schema without an object"       // 6
	TrapFatalAsOK     Trap = "failure as an answer"           // 7
	TrapHandle        Trap = "incomplete handle"              // 12
	TrapStopUnknown   Trap = "stop of an unknown task fails"  // 14
	TrapWaitError     Trap = "wait fails while task runs"     // 15
	TrapStreamEnds    Trap = "stream ends"                    // 17
	TrapStatsError    Trap = "stats end with an error"        // 18
	TrapInheritedPipe Trap = "child holds the plugin's pipes" // 24
	TrapSchemaNames   Trap = "schema with an unnamed part"    // 30
	TrapExecEnd       Trap = "exec without exit message"      // 40
	TrapCode          Trap = "code of a dead plugin"          // 41
	TrapEvent         Trap = "event that cannot be routed"
	TrapCapabilities  Trap = "capabilities missing"
)

// Breach is one instance of a plugin walking into a trap.
type Breach struct {
	Trap Trap
	Call string // method or place
	Text string
}

func (b *Breach) Error() string { return fmt.Sprintf("%s: %s: %s", b.Call, b.Trap, b.Text) }

// maxBreaches bounds what is kept of a plugin that misbehaves all the time.
const maxBreaches = 100

// breachLog keeps breaches and passes them on.
type breachLog struct {
	notify func(Breach)
	mu     sync.Mutex
	kept   []Breach
}

// add records a breach and returns it as an error.
func (l *breachLog) add(trap Trap, call, text string) *Breach {
	b := Breach{Trap: trap, Call: call, Text: text}
	l.mu.Lock()
	if len(l.kept) < maxBreaches {
		l.kept = append(l.kept, b)
	}
	l.mu.Unlock()
	if l.notify != nil {
		l.notify(b)
	}
	return &b
}

func (l *breachLog) all() []Breach {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.kept)
}

// check records an answer that lacks what clients rely on.
func (l *breachLog) check(call string, answer proto.Message) error {
	err := wire.CheckAnswer(answer)
	if err == nil {
		return nil
	}
	return l.add(trapOf(answer), call, err.Error())
}

func trapOf(answer proto.Message) Trap {
	switch r := answer.(type) {
	case *driverpb.TaskStatsResponse:
		return TrapStats
	case *driverpb.WaitTaskResponse:
		return TrapWaitResult
	case *driverpb.ExecTaskResponse, *driverpb.InspectTaskResponse:
		return TrapResult
	case *driverpb.StartTaskResponse:
		if r.GetResult() != driverpb.StartTaskResponse_SUCCESS {
			return TrapFatalAsOK
		}
		return TrapHandle
	case *driverpb.DriverTaskEvent:
		return TrapEvent
	case *driverpb.ExecTaskStreamingResponse:
		return TrapExecEnd
	case *driverpb.TaskConfigSchemaResponse:
		return TrapSchema
	default:
		return TrapCapabilities
	}
}

// checkInfo reports why an agent would not start with a plugin that introduces itself so.
func checkInfo(r *basepb.PluginInfoResponse) error {
	var faults []string
	if r.GetType() != basepb.PluginType_DRIVER {
		faults = append(faults, fmt.Sprintf("type is %v, not DRIVER", r.GetType()))
	}
	if !slices.Contains(r.GetPluginApiVersions(), wire.APIVersion) {
		faults = append(faults, fmt.Sprintf("API versions %q lack %s", r.GetPluginApiVersions(), wire.APIVersion))
	}
	if !versionPattern.MatchString(r.GetPluginVersion()) {
		faults = append(faults, fmt.Sprintf("version %q is no version number", r.GetPluginVersion()))
	}
	if r.GetName() == "" {
		faults = append(faults, "name is empty")
	}
	if len(faults) == 0 {
		return nil
	}
	return errors.New(strings.Join(faults, "; "))
}

// checkSchema reports a schema that a client takes wrongly. Both kinds are held to the same
// rules, though only a plugin schema with another top level ends an agent.
func checkSchema(spec *hclspec.Spec) (Trap, error) {
	if spec.GetObject() == nil {
		return TrapSchema, errors.New("top level is no object")
	}
	if err := hclspec.Lint(spec); err != nil {
		return TrapSchemaNames, err
	}
	return "", nil
}

// checkEcho reports a handle that does not carry the configuration it was made from.
func checkEcho(sent *driverpb.TaskConfig, h *driverpb.TaskHandle) error {
	if h.GetState() != driverpb.TaskState_RUNNING {
		return fmt.Errorf("handle of a started task says %v", h.GetState())
	}
	if !proto.Equal(sent, h.GetConfig()) {
		return errors.New("handle does not carry the task's configuration unchanged")
	}
	return nil
}
