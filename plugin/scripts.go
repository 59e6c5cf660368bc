package plugin

import (
	"encoding/base64"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/wardyn/nomad-driver-wardyn/driver"
	"github.com/wardyn/nomad-driver-wardyn/internal/taskpath"
)

// scriptAsk is a script that runs before the command.
type scriptAsk struct {
	Field string // the block it comes from
	// File is where Text is still to be read from; its path is "" when Text is
	// there already.
	File    taskpath.Source
	Text    string
	Timeout time.Duration // 0 is none
}

// scriptBlock reads a block of a script that the schema leaves open.
func scriptBlock(field string, v any, f *faults) *scriptAsk {
	m, err := stringMap(v)
	if err != nil {
		f.add(field, nil, "want a block with file, script or script_b64", "")
		return nil
	}
	for _, k := range slices.Sorted(maps.Keys(m)) {
		if !slices.Contains([]string{"file", "script", "script_b64", "timeout"}, k) {
			f.add(field+"."+k, nil, "there is no such option", "the block has file, script, script_b64 and timeout")
		}
	}
	return readScript(field, ScriptConfig{File: m["file"], Script: m["script"], Base64: m["script_b64"], Timeout: m["timeout"]}, f)
}

// readScript judges a script; nothing is opened.
func readScript(field string, c ScriptConfig, f *faults) *scriptAsk {
	s := &scriptAsk{Field: field}
	given := 0
	for _, text := range []string{c.File, c.Script, c.Base64} {
		if text != "" {
			given++
		}
	}
	if given != 1 {
		f.add(field, nil, "want exactly one of file, script and script_b64", `for instance file = "local/`+field+`.sh", with a template or artifact that makes it`)
	}
	if c.File != "" {
		src, err := taskpath.ParseSource(c.File)
		if err != nil {
			f.add(field+".file", c.File, err.Error(), "")
		}
		s.File = src
	}
	s.Text = c.Script
	if c.Base64 != "" {
		b, err := base64.StdEncoding.DecodeString(c.Base64)
		if err != nil {
			f.add(field+".script_b64", nil, "that is not base64", "write base64encode(file(...))")
		}
		s.Text = string(b)
	}
	s.checkSize(f)
	if c.Timeout != "" {
		d, err := time.ParseDuration(c.Timeout)
		if err != nil || d < time.Second {
			f.add(field+".timeout", c.Timeout, "want a duration of at least a second", `for instance "15m"`)
		}
		s.Timeout = d
	}
	return s
}

func (s *scriptAsk) checkSize(f *faults) {
	if n := len(s.Text); n > driver.MaxSetupBytes {
		f.add(s.Field, nil, fmt.Sprintf("the script has %d bytes, the limit is %d", n, driver.MaxSetupBytes), "fetch what is large in the script itself")
	}
}

// load reads the script of a file, beneath the task's folder. Without read the
// folder does not exist yet.
func (s *scriptAsk) load(read func(taskpath.Source) ([]byte, error), f *faults) {
	if s == nil || s.File.Path == "" || read == nil {
		return
	}
	b, err := read(s.File)
	switch {
	case err != nil:
		f.add(s.Field+".file", s.File.String(), err.Error(), "")
	case len(b) == 0:
		f.add(s.Field+".file", s.File.String(), "the file is empty", "")
	}
	s.Text = string(b)
}

// what says which script it is, also where its file is not there yet.
func (s *scriptAsk) what() string {
	if s.Text == "" {
		return "the script " + s.File.String()
	}
	return fmt.Sprintf("a script of %d bytes", len(s.Text))
}
