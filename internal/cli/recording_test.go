package cli

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestRecordingCommand(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.cast")
	text := `{"version": 2, "width": 80, "height": 24}` + "\n" + `[0.5, "o", "\u001b[31mred\r\n"]` + "\n" + `[0.6, "m", "exit 3"]` + "\n" + `[0.7, "o", "cut`
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args     []string
		code     int
		out, err string
	}{
		{[]string{"cat", path}, exitOK, "red\n[exit 3]\n", ""},
		{[]string{"play", "-idle", "1ms", path}, exitOK, "\x1b[31mred\r\n", ""},
		{[]string{"cat", path + ".not"}, exitFailed, "", "no such file"},
		{[]string{"cat", "/dev/null"}, exitFailed, "", "no asciicast"},
		{[]string{"drop", path}, exitUsage, "", "want cat or play"},
		{[]string{"cat"}, exitUsage, "", "want cat or play"},
	} {
		var out, errs bytes.Buffer
		code := runRecording(t.Context(), Env{Stdout: &out, Stderr: &errs}, recordingCommand, c.args)
		if code != c.code || out.String() != c.out || !strings.Contains(errs.String(), c.err) {
			t.Errorf("%v: code %d, %q, %q", c.args, code, out.String(), errs.String())
		}
	}
}
