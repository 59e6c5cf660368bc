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
// the line at fault, and block the name of the block that it is in.
func pitfall(d *hcl.Diagnostic, line, block string) string {
	switch {
	case d.Summary == "Invalid template control keyword", strings.Contains(d.Summary, "template") && strings.Contains(line, "%{"):
		return `"%{" begins a template directive of the job file: in config, which the client reads once more, write "%%%{"; in env and meta write "%%{"`
	case d.Summary == "Extra characters after interpolation expression",
		d.Summary == "Invalid expression" && strings.Contains(line, "${"):
		return `"${" begins a reference of the job file, and what follows is none: if it is meant for a shell, write "$$${" in config, which the client reads once more, and "$${" in env, meta and template data; a longer script is safest as base64encode(file("...")) or in a template block`
	case d.Summary == "Argument or block definition required" && quotedName.MatchString(line),
		d.Summary == "Invalid argument name" && quotedName.MatchString(line):
		return `a name in quotes cannot stand in a block: write the block as a map, ` + block + ` = { "a.b" = "c" }`
	case d.Summary == "Invalid single-argument block definition":
		return `a block on one line takes one argument: give each a line of its own, or write a map, labels = { a = "1", b = "2" }`
	}
	return ""
}

// blockName is the head of a block.
var blockName = regexp.MustCompile(`^\s*(\w+)\s*\{`)

// blockAt is the name of the innermost block at a line, counted from 1, as far as
// braces tell; "labels" where they do not.
func blockAt(src []byte, line int) string {
	depth := 0
	for ; line > 0; line-- {
		text := lineOf(src, line)
		m := blockName.FindStringSubmatch(text)
		open, closed := strings.Count(text, "{"), strings.Count(text, "}")
		if depth += open - closed; m != nil && (depth > 0 || open > 0 && closed == open && quotedName.MatchString(text)) {
			return m[1]
		}
		depth = min(depth, 0)
	}
	return "labels"
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
