package plugin

import (
	"context"
	"path/filepath"
	"sync"
	"time"

	"github.com/google/uuid"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/wardyn/nomad-driver-wardyn/internal/control"
	"github.com/wardyn/nomad-driver-wardyn/internal/keeper"
	"github.com/wardyn/nomad-driver-wardyn/internal/ports"
	"github.com/wardyn/nomad-driver-wardyn/plugin/internal/wire/driverpb"
)

// handleVersion is the version of the handles we give out; 0 is reserved for
// clients before 0.9.
const handleVersion = 1

// outcome is how a task ended.
type outcome struct {
	Code, Signal int
	OOMKilled    bool
	Err          string // what the driver has to say about it
	At           time.Time
}

func (o outcome) result() *driverpb.ExitResult {
	return &driverpb.ExitResult{ExitCode: int32(o.Code), Signal: int32(o.Signal), OomKilled: o.OOMKilled}
}

// message is what people are told of an exit beside its code: clients show
// neither that flag of a result nor the limit.
func (o outcome) message() string {
	if o.Err == "" && o.OOMKilled {
		return "killed for memory: it went over its limit; raise memory, or memory_max, in the task's resources"
	}
	return o.Err
}

// task is one attempt of a task that this process looks after.
type task struct {
	id     TaskID
	config *driverpb.TaskConfig // as received
	state  state
	// output is where the main process's output goes.
	output keeper.Task
	// records is the folder for people's files.
	records string

	// ctx ends when the task is destroyed or the plugin ends: whatever watches
	// the task stops then.
	ctx  context.Context
	stop context.CancelFunc

	denials *denials
	reviews *reviews
	// reported says what becomes of recordings the sandbox makes of itself; nil
	// takes none.
	reported *control.Reported
	// credentials are what the task's sidecar may ask for.
	credentials []control.Credential
	ports       *ports.Set
	parking     parking
	held        heldSignals
	execs       recorders // of commands in the task that run now
	unrecorded  sync.Once // tells that some of the output is not recorded
	// setup is what runs before the task has a sandbox; nil when nothing does.
	setup *setupState
	// carried is closed when all of the task's output has been delivered.
	carried chan struct{}

	mu     sync.Mutex
	blamed string        // why the driver ends the task, if it does
	ended  *outcome      // nil while the task lives
	done   chan struct{} // closed when ended is set
}

// newTask makes a task whose watching ends with life.
func newTask(life context.Context, b *Backend, tc *driverpb.TaskConfig, s state) *task {
	ctx, stop := context.WithCancel(life)
	d := taskDirs(tc)
	return &task{
		id: TaskID(tc.GetId()), config: tc, state: s, ctx: ctx, stop: stop,
		output:  outputOf(b, s.Run, tc.GetStdoutPath(), tc.GetStderrPath()),
		records: d.Own(),
		ports:   ports.NewSet(s.Ports),
		done:    make(chan struct{}),
		carried: make(chan struct{}),
	}
}

// outputOf names a run's output, also for a run of which nothing else is known.
func outputOf(b *Backend, run uuid.UUID, stdout, stderr string) keeper.Task {
	return keeper.Task{
		ID: run.String(), Stdout: stdout, Stderr: stderr,
		Position: filepath.Join(b.RunDir(run), "output.pos"),
	}
}

// control is the task's run as the control plane knows it.
func (t *task) control() control.Run {
	return control.Run{
		ID: t.state.Run, Owner: ownerOf(t.config), FilesDir: t.records, OnDecision: t.denials.hear,
		OnApproval: t.reviews.hear, Credentials: t.credentials, Ports: t.ports, Reported: t.reported, Git: gitRules(t.state.Sources), Learn: t.state.Learn,
	}
}

func ownerOf(tc *driverpb.TaskConfig) control.Owner {
	return control.Owner{Namespace: tc.GetNamespace(), Job: tc.GetJobId(), Alloc: tc.GetAllocId(), Task: tc.GetName()}
}

// end records how the task ended. Only the first word counts.
func (t *task) end(o outcome) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.ended != nil {
		return
	}
	if o.At.IsZero() {
		o.At = time.Now()
	}
	t.ended = &o
	close(t.done)
}

// exit is how the task ended, if it has.
func (t *task) exit() (outcome, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.ended == nil {
		return outcome{}, false
	}
	return *t.ended, true
}

// handle is what the client keeps of the task.
func (t *task) handle() (*driverpb.TaskHandle, error) {
	b, err := t.state.encode()
	if err != nil {
		return nil, err
	}
	return &driverpb.TaskHandle{
		Version: handleVersion, Config: t.config, State: driverpb.TaskState_RUNNING, DriverState: b,
	}, nil
}

// status is the task as InspectTask shows it. Clients want every field: what
// has not come yet is the zero time and a result of zeroes.
func (t *task) status() *driverpb.TaskStatus {
	s := &driverpb.TaskStatus{
		Id: string(t.id), Name: t.config.GetName(), State: driverpb.TaskState_RUNNING,
		StartedAt: timestamppb.New(t.state.Started), CompletedAt: timestamppb.New(time.Time{}),
		Result: &driverpb.ExitResult{},
	}
	if o, ended := t.exit(); ended {
		s.State, s.CompletedAt, s.Result = driverpb.TaskState_EXITED, timestamppb.New(o.At), o.result()
	}
	return s
}
