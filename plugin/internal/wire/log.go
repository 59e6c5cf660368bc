package wire

import (
	"encoding/json"
	"fmt"
	"io"

	"github.com/hashicorp/go-hclog"
)

// NewLogger returns the logger of a plugin: JSON lines at trace level, which the client
// filters by its own level. w is the process's original standard error; go-plugin replaces
// the variable os.Stderr later, so the logger is made before serving.
func NewLogger(w io.Writer) hclog.Logger {
	return hclog.New(&hclog.LoggerOptions{
		Output:     lineGuard{w},
		Level:      hclog.Trace,
		JSONFormat: true,
	})
}

// lineGuard holds back log lines that would end the client: it takes @message, @level and
// @timestamp for strings without looking, and a log argument of such a name replaces ours.
type lineGuard struct{ w io.Writer }

func (g lineGuard) Write(line []byte) (int, error) {
	out := line
	if err := CheckLogLine(line); err != nil {
		out = safeLogLine(err)
	}
	if _, err := g.w.Write(out); err != nil {
		return 0, err
	}
	return len(line), nil
}

// CheckLogLine reports why a line on a plugin's standard error would end the client that
// reads it, nil if it is harmless. Lines that are no JSON object are.
func CheckLogLine(line []byte) error {
	var entry map[string]json.RawMessage
	if json.Unmarshal(line, &entry) != nil {
		return nil
	}
	for _, key := range []string{"@message", "@level", "@timestamp"} {
		raw, present := entry[key]
		if present && (len(raw) == 0 || raw[0] != '"') {
			return fmt.Errorf("log line has a %s that is no string", key)
		}
	}
	return nil
}

func safeLogLine(reason error) []byte {
	line, err := json.Marshal(map[string]string{
		"@level":   "error",
		"@message": "wire: " + reason.Error() + "; line dropped",
	})
	if err != nil {
		return nil
	}
	return append(line, '\n')
}
