package docker

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/google/uuid"

	"github.com/wardyn/nomad-driver-wardyn/runner/types"
)

// labelPrefix is the namespace of this driver's labels.
const labelPrefix = "wardyn."

// Reserved label keys. They are written after the caller's labels.
const (
	labelManaged   = "wardyn.managed"
	labelRun       = "wardyn.run-id"
	labelComponent = "wardyn.component"
	labelInstance  = "wardyn.instance"
	labelProof     = "wardyn.proof"
	labelClass     = "wardyn.class"
	labelImage     = "wardyn.image" // the reference the image was asked for by
	labelSlot      = "wardyn.slot"  // the pool's slot that an object is of, or that an agent joined
)

// Components, the values of labelComponent.
const (
	componentAgent   = "agent"
	componentProxy   = "proxy"
	componentNetwork = "network"
	componentEgress  = "egress"
	componentProbe   = "probe"
	componentVolume  = "volume"
	componentHolder  = "holder"
)

// nomadLabels is the namespace whose containers Nomad's docker driver takes
// for its own and removes when it does not know them.
const nomadLabels = "com.hashicorp.nomad."

// reserved are the labels that say whose an object is. The proof can only be
// made with this instance's secret, and only for this one name.
func (r *Runner) reserved(name, component string) map[string]string {
	return map[string]string{
		labelManaged:   "true",
		labelComponent: component,
		labelInstance:  r.opts.Dir.Instance(),
		labelProof:     r.opts.Dir.Proof(name),
	}
}

// reservedOf are the reserved labels of one of a run's objects.
func (r *Runner) reservedOf(name, component string, run uuid.UUID, class types.ConfinementClass) map[string]string {
	l := r.reserved(name, component)
	l[labelRun] = run.String()
	l[labelClass] = string(class)
	return l
}

// owns reports whether the engine object of that name is this instance's:
// labels alone prove nothing, since a container inherits those of its image.
func (r *Runner) owns(name string, labels map[string]string) bool {
	return labels[labelInstance] == r.opts.Dir.Instance() &&
		r.opts.Dir.ProofHolds(strings.TrimPrefix(name, "/"), labels[labelProof])
}

// mergeLabels puts the reserved labels over the caller's, and empty values
// over those of ours that an image brings along.
func mergeLabels(image, caller, reserved map[string]string) map[string]string {
	out := make(map[string]string, len(caller)+len(reserved))
	for k := range image {
		if strings.HasPrefix(k, labelPrefix) {
			out[k] = ""
		}
	}
	maps.Copy(out, caller)
	maps.Copy(out, reserved)
	return out
}

// checkLabels refuses what would make Nomad's docker driver remove a container.
func checkLabels(what string, labels map[string]string) (errs []error) {
	for _, k := range slices.Sorted(maps.Keys(labels)) {
		if strings.HasPrefix(k, nomadLabels) {
			errs = append(errs, fmt.Errorf("label %q of the %s: Nomad's docker driver removes containers with %s* labels; drop the label", k, what, nomadLabels))
		}
		if k == "" {
			errs = append(errs, fmt.Errorf("a label of the %s has no name", what))
		}
	}
	return errs
}
