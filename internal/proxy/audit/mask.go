package audit

import (
	"bytes"
	"encoding/json"
	"slices"
	"sync"
)

// Mask replaces registered secret values in everything that leaves the proxy
// as text. Values are found verbatim and in their JSON-escaped form; encoded
// or split ones are not.
type Mask struct {
	mu     sync.RWMutex
	values [][]byte // longest first
}

// minSecret is the shortest value that is registered: masking shorter ones
// would blot out ordinary text.
const minSecret = 8

// hidden stands where a secret stood.
const hidden = "<secret-hidden>"

// Add registers values. A value too short to be masked is reported as false.
func (m *Mask) Add(values ...string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	all := true
	for _, v := range values {
		if len(v) < minSecret {
			all = false
			continue
		}
		m.values = append(m.values, []byte(v))
		if j, err := json.Marshal(v); err == nil && string(j[1:len(j)-1]) != v {
			m.values = append(m.values, j[1:len(j)-1])
		}
	}
	slices.SortFunc(m.values, func(a, b []byte) int {
		if len(a) != len(b) {
			return len(b) - len(a)
		}
		return bytes.Compare(a, b)
	})
	m.values = slices.CompactFunc(m.values, bytes.Equal)
	return all
}

// Bytes returns b with every registered value replaced. b itself is not changed.
func (m *Mask) Bytes(b []byte) []byte {
	m.mu.RLock()
	defer m.mu.RUnlock()
	for _, v := range m.values {
		if bytes.Contains(b, v) {
			b = bytes.ReplaceAll(b, v, []byte(hidden))
		}
	}
	return b
}

// String is Bytes for strings.
func (m *Mask) String(s string) string { return string(m.Bytes([]byte(s))) }
