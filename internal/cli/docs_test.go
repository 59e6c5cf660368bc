package cli

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// fenced is a command's section of docs/commands.md up to the end of its help
// text: a heading and a fence with the text.
var fenced = regexp.MustCompile("(?s)\n## ([a-z]+)\n\n```text\n(.*?)```\n")

// helpOf is what help prints of a command.
func helpOf(c *command) string {
	var out bytes.Buffer
	fs := flag.NewFlagSet(c.name, flag.ContinueOnError)
	if c.flags != nil {
		c.flags(fs)
	}
	c.help(&out, fs)
	return out.String()
}

// TestCommandsPage keeps docs/commands.md and the commands together: every
// command has a section that begins with its help text. -update writes the
// texts of sections that are there.
func TestCommandsPage(t *testing.T) {
	path := filepath.Join("..", "..", "docs", "commands.md")
	page, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if *update {
		page = fenced.ReplaceAllFunc(page, func(b []byte) []byte {
			name := string(fenced.FindSubmatch(b)[1])
			if c := find(name); c != nil {
				return []byte("\n## " + name + "\n\n```text\n" + helpOf(c) + "```\n")
			}
			return b
		})
		if err := os.WriteFile(path, page, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	var sections []string
	for _, m := range fenced.FindAllStringSubmatch(string(page), -1) {
		sections = append(sections, m[1])
		if c := find(m[1]); c == nil || c.hidden {
			t.Errorf("docs/commands.md describes %s, which is no command", m[1])
		} else if m[2] != helpOf(c) {
			t.Errorf("docs/commands.md does not say of %s what help says; run go test ./internal/cli -run TestCommandsPage -update", m[1])
		}
	}
	for _, c := range commands() {
		if !c.hidden && !slices.Contains(sections, c.name) {
			t.Errorf("docs/commands.md has no section %s with its help text", c.name)
		}
	}
}

// TestHelpTellsExitCodes: whoever writes a script needs them.
func TestHelpTellsExitCodes(t *testing.T) {
	for _, c := range commands() {
		text := helpOf(c)
		if !strings.Contains(text, "\nExit codes:\n  0 ") || !strings.Contains(text, "\n  2 ") {
			t.Errorf("%s: %s", c.name, text)
		}
	}
}
