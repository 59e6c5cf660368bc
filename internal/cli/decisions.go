package cli

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// decisionFile is where a task's egress decisions are, below its directory.
const decisionFile = "wardyn/decisions.jsonl"

// longestRecord bounds one line of a decision file.
const longestRecord = 1 << 20

// printDecisions prints the decisions of a task: the file as it is, or a line
// for each verdict. A task without the file made no request.
func printDecisions(w io.Writer, taskDir string, raw bool) error {
	f, err := os.Open(filepath.Join(taskDir, filepath.FromSlash(decisionFile)))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("decisions: %w", err)
	}
	defer f.Close()
	if raw {
		_, err := io.Copy(w, f)
		return err
	}
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, longestRecord)
	for lines.Scan() {
		if text := decisionLine(lines.Bytes()); text != "" {
			fmt.Fprintln(w, text)
		}
	}
	return lines.Err()
}

// record is a line of a decision file. The sidecar's own shape nests the
// request and the flow, the file's is flat; both are understood.
type record map[string]any

func parseRecord(line []byte) (record, error) {
	var nested map[string]any
	if err := json.Unmarshal(line, &nested); err != nil {
		return nil, err
	}
	flat := record{}
	for k, v := range nested {
		switch inner, isObject := v.(map[string]any); {
		case isObject && (k == "request" || k == "flow"):
			for k, v := range inner {
				flat[strings.ToLower(k)] = v
			}
		case isObject && k == "rule":
			flat["rule_source"], flat["rule"] = inner["source"], inner["id"]
		default:
			flat[strings.ToLower(k)] = v
		}
	}
	return flat, nil
}

// text gives the first of some fields that is there, fit for a terminal.
func (r record) text(names ...string) string {
	for _, n := range names {
		if v, ok := r[n]; ok && v != nil && v != "" {
			return printable(fmt.Sprint(v))
		}
	}
	return ""
}

// decisionLine is one verdict for people; "" for records that are none.
func decisionLine(line []byte) string {
	r, err := parseRecord(line)
	if err != nil {
		return "unreadable record: " + printable(string(line))
	}
	verdict := r.text("decision")
	if kind := r.text("kind"); verdict == "" || kind != "" && kind != "decision" {
		return ""
	}
	at := r.text("time")
	if t, err := time.Parse(time.RFC3339Nano, at); err == nil {
		at = t.Local().Format("15:04:05.000")
	}
	target := r.text("host")
	if port := r.text("port"); port != "" && port != "0" {
		target += ":" + port
	}
	parts := []string{at, fmt.Sprintf("%-7s", verdict), r.text("method"), target + r.text("path", "path_template")}
	out := strings.TrimSpace(strings.Join(parts, " "))
	var why []string
	for _, name := range []string{"rule_source", "rule", "cause", "hint"} {
		if s := r.text(name); s != "" {
			why = append(why, s)
		}
	}
	if len(why) > 0 {
		out += "  (" + strings.Join(why, "; ") + ")"
	}
	return out
}
