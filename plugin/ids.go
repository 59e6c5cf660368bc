package plugin

import (
	"github.com/google/uuid"

	"github.com/wardyn/nomad-driver-wardyn/plugin/internal/wire/driverpb"
)

// TaskID is Nomad's id of one attempt of a task: "<alloc>/<task>/<random>".
// Every restart of a task has a new one.
type TaskID string

// runNamespace pins how run ids follow from task ids. Changing it would orphan
// every running task.
var runNamespace = uuid.MustParse("8f6b1f5e-5d1c-5c4e-9b7a-2f0c6f1d3a47")

// RunID names everything an attempt owns on the engine and on disk. It follows
// from the task id alone, so that a task can be taken down by a process that
// never saw it start.
func RunID(id TaskID) uuid.UUID { return uuid.NewSHA1(runNamespace, []byte(id)) }

// SessionID stays the same over the restarts of a task.
func SessionID(t *driverpb.TaskConfig) string { return t.GetAllocId() + "." + t.GetName() }
