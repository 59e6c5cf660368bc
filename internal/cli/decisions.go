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
	"slices"
	"strings"
	"time"
)

// decisionDir is where a task's egress decisions are, below its directory, and
// decisionFiles are they: the older half, which is there when the newer has
// been full, and the newer.
const decisionDir = "wardyn"

var decisionFiles = []string{"decisions.1.jsonl", "decisions.jsonl"}

// longestRecord bounds one line of a decision file.
const longestRecord = 1 << 20

// hasDecisions reports whether a task has any.
func hasDecisions(taskDir string) bool {
	return slices.ContainsFunc(decisionFiles, func(name string) bool {
		fi, err := os.Stat(filepath.Join(taskDir, decisionDir, name))
		return err == nil && fi.Size() > 0
	})
}

// printDecisions prints the decisions of a task: the files as they are, or a
// line for each verdict. A task without files made no request.
func printDecisions(w io.Writer, taskDir string, raw bool) error {
	for _, name := range decisionFiles {
		f, err := os.Open(filepath.Join(taskDir, decisionDir, name))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err == nil {
			err = copyDecisions(w, f, raw)
			f.Close() // it was only read
		}
		if err != nil {
			return fmt.Errorf("decisions: %w", err)
		}
	}
	return nil
}

func copyDecisions(w io.Writer, r io.Reader, raw bool) error {
	if raw {
		_, err := io.Copy(w, r)
		return err
	}
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, longestRecord)
	for lines.Scan() {
		if text := decisionLine(lines.Bytes()); text != "" {
			fmt.Fprintln(w, text)
		}
	}
	return lines.Err()
}

// record is what people are shown of a line of a decision file.
type record struct {
	Time     time.Time `json:"time"`
	Kind     string    `json:"kind"`
	Decision string    `json:"decision"`
	Code     string    `json:"code"`
	Rule     struct {
		ID string `json:"id"`
	} `json:"rule"`
	Direction string `json:"direction"`
	Method    string `json:"method"`
	Host      string `json:"host"`
	Port      int    `json:"port"`
	Path      string `json:"path"`
	Cause     string `json:"cause"`
	Hint      string `json:"hint"`
	Gap       struct {
		N uint64 `json:"n"`
	} `json:"gap"`
}

// decisionLine is one record for people; "" for those that tell them nothing.
func decisionLine(line []byte) string {
	var r record
	if err := json.Unmarshal(line, &r); err != nil {
		return "unreadable record: " + printable(string(line))
	}
	at := "            "
	if !r.Time.IsZero() {
		at = r.Time.Local().Format("15:04:05.000")
	}
	switch r.Kind {
	case "gap":
		return fmt.Sprintf("%s %d records are missing", at, r.Gap.N)
	case "decision":
	default: // the end of a flow
		return ""
	}
	target := r.Host
	if r.Port != 0 {
		target = fmt.Sprintf("%s:%d", r.Host, r.Port)
	}
	words := []string{at, fmt.Sprintf("%-7s", r.Decision)}
	if r.Method != "" {
		words = append(words, r.Method)
	}
	words = append(words, target+r.Path)
	var why []string
	for _, s := range []string{r.Code, r.Rule.ID, r.Cause, r.Hint} {
		if s != "" {
			why = append(why, s)
		}
	}
	if len(why) > 0 {
		words = append(words, "("+strings.Join(why, "; ")+")")
	}
	return printable(strings.Join(words, " "))
}
