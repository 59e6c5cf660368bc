package cast

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/creack/pty"
)

var specSize = regexp.MustCompile(`^[1-9][0-9]*x[1-9][0-9]*$`)

// checkSpec reads a file by the letter of the asciicast v2 format, with nothing
// of this package, and returns its output.
func checkSpec(raw []byte) (string, error) {
	if !utf8.Valid(raw) || !bytes.HasSuffix(raw, []byte("\n")) {
		return "", fmt.Errorf("no UTF-8, or an end in the middle of a line")
	}
	in := bufio.NewScanner(bytes.NewReader(raw))
	in.Buffer(nil, 16<<20)
	var out strings.Builder
	var last float64
	for n := 1; in.Scan(); n++ {
		if n == 1 {
			head := map[string]any{}
			if err := json.Unmarshal(in.Bytes(), &head); err != nil {
				return "", fmt.Errorf("header: %w", err)
			}
			w, wok := head["width"].(float64)
			h, hok := head["height"].(float64)
			if head["version"] != 2.0 || !wok || !hok || w < 1 || h < 1 {
				return "", fmt.Errorf("header %v", head)
			}
			continue
		}
		var event []any
		if err := json.Unmarshal(in.Bytes(), &event); err != nil || len(event) != 3 {
			return "", fmt.Errorf("line %d: %v %v", n, event, err)
		}
		at, isTime := event[0].(float64)
		kind, isKind := event[1].(string)
		data, isData := event[2].(string)
		switch {
		case !isTime || !isKind || !isData || at < last:
			return "", fmt.Errorf("line %d: %v after %v", n, event, last)
		case !strings.Contains("oirm", kind) || len(kind) != 1, kind == "r" && !specSize.MatchString(data):
			return "", fmt.Errorf("line %d: %v", n, event)
		case kind == "o":
			out.WriteString(data)
		}
		last = at
	}
	return out.String(), in.Err()
}

// recorded makes a recording with all there is in one, and tells its output.
func recorded(t *testing.T) (path, output string) {
	t.Helper()
	c := newClock()
	o := options(t, c)
	o.Title = "a \"title\"\n\x1b[2J"
	r := open(t, o)
	for i := range 20 {
		s := fmt.Sprintf("%d \x1b[3%dm\u00e9\U0001f600\u202e\x00\x7f\"\\ \u2028\r\n", i, i%8)
		must(t, r.Output(0, []byte(s)), r.Input([]byte("\x03")), r.Resize(80+i, 24+i))
		output += s
		c.pass(3_000_001)
	}
	must(t, r.Mark("a \"marker\""), r.Close("exit 0"))
	return filepath.Join(o.Dir, "run.cast"), output
}

// K36: what is written is an asciicast v2 to a reader that knows only the format.
func TestK36FormatByTheLetter(t *testing.T) {
	path, want := recorded(t)
	raw, err := os.ReadFile(path)
	must(t, err)
	got, err := checkSpec(raw)
	if err != nil || got != want {
		t.Errorf("%v; %q, want %q", err, got, want)
	}
	// The check itself sees what is wrong.
	for _, bad := range []string{
		"", "{}\n", `{"version":2,"width":0,"height":1}` + "\n", string(raw) + "[0.0,\"o\",\"earlier\"]\n", string(raw) + "[99,\"x\",\"\"]\n",
		string(raw) + "[99,\"r\",\"0x0\"]\n", string(raw) + "[99,\"o\",7]\n", string(raw) + "[99,\"o\",\"half",
	} {
		if _, err := checkSpec([]byte(bad)); err == nil {
			t.Errorf("%.60q... passes", bad)
		}
	}
}

// asciinema itself plays it, with nothing added or lost.
func TestK36Asciinema(t *testing.T) {
	program, err := exec.LookPath("asciinema")
	if err != nil {
		t.Skip("asciinema is not installed")
	}
	path, want := recorded(t)
	cmd := exec.CommandContext(t.Context(), program, "play", "-s", "10000", path)
	cmd.Env = append(os.Environ(), "LC_ALL=C.UTF-8", "TERM=xterm")
	term, err := pty.Start(cmd) // it wants a terminal, which it makes raw
	must(t, err)
	defer term.Close()
	got, _ := io.ReadAll(term) // ends with an error when nobody writes any more
	if err := cmd.Wait(); err != nil || string(got) != want {
		t.Errorf("%v; %q, want %q", err, got, want)
	}
}
