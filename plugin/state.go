package plugin

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/wardyn/nomad-driver-wardyn/internal/ports"
	"github.com/wardyn/nomad-driver-wardyn/runner/types"
)

// stateVersion is the version of driver_state this build writes and the newest
// it reads.
const stateVersion = 1

// state is what a task's handle keeps for recovery, beside the TaskConfig that
// Nomad keeps without the author's config. It lies in the client's state store
// in clear: nothing secret is in it.
type state struct {
	Version int                    `json:"version"`
	Run     uuid.UUID              `json:"run"`
	Ref     string                 `json:"ref"`
	Session string                 `json:"session"`
	Class   types.ConfinementClass `json:"class"`
	Image   string                 `json:"image"`
	TTY     bool                   `json:"tty,omitempty"`
	Record  bool                   `json:"record,omitempty"`
	// Reported: recordings that the sandbox makes of itself are kept.
	Reported bool      `json:"reported,omitempty"`
	DiskMiB  int64     `json:"disk_mib,omitempty"`
	Started  time.Time `json:"started"`
	// SharedCPUs: it runs on what CPUs the client leaves to all, and is kept to them.
	// Of these it has those of CPUs, where its author names some.
	SharedCPUs bool   `json:"shared_cpus,omitempty"`
	CPUs       string `json:"cpus,omitempty"`
	// Stages run before the command, by name.
	Stages []string `json:"stages,omitempty"`
	// The policy, for the verbs that show and explain it.
	Allow    []string `json:"allow,omitempty"`
	Deny     []string `json:"deny,omitempty"`
	Methods  []string `json:"methods,omitempty"`
	AllowAll bool     `json:"allow_all,omitempty"`
	FirstUse string   `json:"first_use,omitempty"`
	Learn    bool     `json:"learn,omitempty"`
	// Sources say where its secrets are; none is in here.
	Sources []source `json:"sources,omitempty"`
	// Ports are opened anew when the sidecar has lost them.
	Ports []ports.Port `json:"ports,omitempty"`
}

func (s state) hasStage(name string) bool { return slices.Contains(s.Stages, name) }

func (s state) encode() ([]byte, error) { return json.Marshal(s) }

// decodeState reads a driver_state. One that is not ours, is damaged or is of
// a newer version is an error: nothing can be concluded about its task.
func decodeState(b []byte) (state, error) {
	var s state
	if err := json.Unmarshal(b, &s); err != nil {
		return state{}, fmt.Errorf("driver state: %w", err)
	}
	switch {
	case s.Version < 1 || s.Version > stateVersion:
		return state{}, fmt.Errorf("driver state: version %d, this driver reads up to %d", s.Version, stateVersion)
	case s.Run == uuid.Nil || s.Ref == "":
		return state{}, fmt.Errorf("driver state: it names no run")
	}
	return s, nil
}
