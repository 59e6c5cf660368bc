package jobfile

import (
	"regexp"
	"strings"

	"github.com/hashicorp/hcl/v2"
)

// quotedName is a line that gives a value to a quoted name outside a map.
var quotedName = regexp.MustCompile(`^[^=]*"[^"]*"\s*=`)

// pitfall is what is behind a syntax error that job files often have, where
// the parser's own words lead astray; "" where they do not. line is the text of
// the line at fault.
func pitfall(d *hcl.Diagnostic, line string) string {
	switch {
	case d.Summary == "Invalid template control keyword", strings.Contains(d.Summary, "template") && strings.Contains(line, "%{"):
		return `"%{" begins a template directive of the job file: in config, which the client reads once more, write "%%%{"; in env and meta write "%%{"`
	case d.Summary == "Extra characters after interpolation expression",
		d.Summary == "Invalid expression" && strings.Contains(line, "${"):
		return `"${" begins a reference of the job file, and what follows is none: if it is meant for a shell, write "$$${" in config, which the client reads once more, and "$${" in env, meta and template data; a longer script is safest as base64encode(file("...")) or in a template block`
	case d.Summary == "Argument or block definition required" && quotedName.MatchString(line),
		d.Summary == "Invalid argument name" && quotedName.MatchString(line):
		return `a name in quotes cannot stand in a block: write the block as a map, labels = { "a.b" = "c" }`
	case d.Summary == "Invalid single-argument block definition":
		return `a block on one line takes one argument: give each a line of its own, or write a map, labels = { a = "1", b = "2" }`
	}
	return ""
}

// lineOf is the text of a line, counted from 1.
func lineOf(src []byte, line int) string {
	for text := range strings.Lines(string(src)) {
		if line--; line == 0 {
			return strings.TrimRight(text, "\r\n")
		}
	}
	return ""
}
