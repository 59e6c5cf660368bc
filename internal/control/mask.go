package control

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/wardyn/nomad-driver-wardyn/internal/clean"
	"github.com/wardyn/nomad-driver-wardyn/runner/egress"
)

// masker replaces secret values wherever they stand in a record. They are
// found as they are; encoded or split ones are not.
type masker struct {
	values [][]byte // as they stand inside a JSON string, longest first
}

func newMasker(secrets []string) masker { return masker{}.with(secrets...) }

// with is a masker that hides more values; the one it is made of is unchanged.
func (m masker) with(secrets ...string) masker {
	m.values = slices.Clone(m.values)
	for _, s := range secrets {
		if len(s) < clean.Shortest {
			continue
		}
		b, _ := json.Marshal(s) // strings always marshal
		m.values = append(m.values, b[1:len(b)-1])
	}
	m.values = clean.Order(m.values)
	return m
}

// decision returns the record without secrets. It is masked as JSON, so that
// no field can be forgotten.
func (m masker) decision(l egress.DecisionLog) (egress.DecisionLog, error) {
	b, err := json.Marshal(l)
	if err != nil {
		return l, fmt.Errorf("decision record: %w", err)
	}
	masked := b
	mark, _ := json.Marshal(clean.Hidden)
	for _, v := range m.values {
		masked = bytes.ReplaceAll(masked, v, mark[1:len(mark)-1])
	}
	if bytes.Equal(masked, b) {
		return l, nil
	}
	var out egress.DecisionLog
	if err := json.Unmarshal(masked, &out); err != nil {
		return l, fmt.Errorf("masked decision record: %w", err)
	}
	return out, nil
}
