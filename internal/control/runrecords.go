package control

import (
	"github.com/wardyn/nomad-driver-wardyn/runner/egress"
)

// record keeps one decision, lets the owner hear it and delivers it elsewhere. A
// record that was kept already, whose acknowledgement got lost, is acknowledged
// again.
func (r *run) record(l egress.DecisionLog) error {
	key, l, err := r.keepOnce(l)
	if err != nil {
		return err
	}
	return r.forward(key, l)
}

// keepOnce masks a record and stores it, unless it is a repeated one.
func (r *run) keepOnce(l egress.DecisionLog) (key string, masked egress.DecisionLog, err error) {
	r.keep.Lock()
	defer r.keep.Unlock()
	if masked, err = r.mask.decision(l); err != nil {
		return "", masked, err
	}
	if key = keyOf(masked); r.recent.has(key) {
		return key, masked, nil
	}
	return key, masked, r.store(key, masked)
}

// store keeps a record here and lets the owner hear it. r.keep is held.
func (r *run) store(key string, l egress.DecisionLog) error {
	rec := flatten(l)
	rec.PolicyHash = r.currentConfig().policyHash
	for i, c := range r.opts.Copies { // the copies first: what is sent again is copied once
		if r.copied[i].has(key) {
			continue
		}
		if err := c.Take(OwnedRecord{r.owner.Owner, rec}); err != nil {
			return err
		}
		r.copied[i].add(key)
	}
	if r.journal != nil {
		if err := r.journal.append(&rec); err != nil {
			return err
		}
	} else {
		r.log.Info("egress decision of a run without files", "decision", rec.Decision, "code", rec.Code, "host", rec.Host)
	}
	r.counts.add(rec)
	r.recent.add(key)
	if r.owner.OnDecision != nil {
		r.owner.OnDecision(l)
	}
	return nil
}
