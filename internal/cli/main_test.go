package cli

import (
	"bytes"
	"context"
	"errors"
	"path/filepath"
	"strings"
	"testing"
)

// testEnv is an Env whose output the test reads and whose hooks say their name.
func testEnv(stdout, stderr *bytes.Buffer, args ...string) Env {
	return Env{
		Args: args, Stdout: stdout, Stderr: stderr, Version: "1.2.3",
		LookupEnv:   func(string) (string, bool) { return "", false },
		ServePlugin: func() error { return errors.New("served") },
	}
}

func TestDispatch(t *testing.T) {
	cookie := func(value string) func(string) (string, bool) {
		return func(key string) (string, bool) { return value, key == "NOMAD_PLUGIN_MAGIC_COOKIE" }
	}
	for name, c := range map[string]struct {
		args   []string
		cookie string
		code   int
		stdout string
		stderr string
	}{
		"no command":            {nil, "", 2, "", "Usage: nomad-driver-wardyn COMMAND"},
		"unknown command":       {[]string{"rnu"}, "", 2, "", `error: there is no command "rnu"; did you mean run?; see: nomad-driver-wardyn help` + "\n"},
		"help":                  {[]string{"help"}, "", 0, "version", ""},
		"-h":                    {[]string{"-h"}, "", 0, "Usage:", ""},
		"help of a command":     {[]string{"help", "version"}, "", 0, "-json", ""},
		"help of nothing":       {[]string{"help", "x"}, "", 2, "", `there is no command "x"`},
		"flag mistyped":         {[]string{"version", "-jsn"}, "", 2, "", "error: version: flag provided but not defined: -jsn; did you mean -json?; see: nomad-driver-wardyn help version\n"},
		"help by flag":          {[]string{"version", "-h"}, "", 0, "Usage: nomad-driver-wardyn version [-json]", ""},
		"unknown flag":          {[]string{"version", "-x"}, "", 2, "", "flag provided but not defined: -x"},
		"version":               {[]string{"version"}, "", 0, "nomad-driver-wardyn 1.2.3 (", ""},
		"--version":             {[]string{"--version"}, "", 0, "nomad-driver-wardyn 1.2.3 (", ""},
		"version in JSON":       {[]string{"version", "-json"}, "", 0, `"version":"1.2.3"`, ""},
		"keeper without socket": {[]string{"keeper"}, "", 2, "", "want -socket PATH"},
		"plugin":                {nil, cookieValue, 1, "", "served"},
		"plugin with arguments": {[]string{"version"}, cookieValue, 1, "", "served"},
		"another cookie":        {[]string{"version"}, "other", 0, "nomad-driver-wardyn 1.2.3", ""},
		"holder without socket": {[]string{"holder"}, "", 2, "", "want -socket PATH"},
		"holder of a plugin":    {[]string{"holder"}, cookieValue, 2, "", "want -socket PATH"},
		"keeper of a plugin":    {[]string{"keeper"}, cookieValue, 2, "", "want -socket PATH"},
	} {
		var stdout, stderr bytes.Buffer
		e := testEnv(&stdout, &stderr, c.args...)
		e.LookupEnv = cookie(c.cookie)
		code := Main(context.Background(), e)
		if code != c.code || !strings.Contains(stdout.String(), c.stdout) || !strings.Contains(stderr.String(), c.stderr) ||
			(c.stdout == "") != (stdout.Len() == 0) || (c.stderr == "") != (stderr.Len() == 0) ||
			strings.HasPrefix(c.stderr, "error:") && stderr.String() != c.stderr { // one line, no page of help behind it
			t.Errorf("%s: exit %d\nstdout: %s\nstderr: %s", name, code, stdout.String(), stderr.String())
		}
	}
}

// TestMissingPlugin: a program that was built without it says so.
func TestMissingPlugin(t *testing.T) {
	var stdout, stderr bytes.Buffer
	e := Env{Stdout: &stdout, Stderr: &stderr, LookupEnv: func(string) (string, bool) { return cookieValue, true }}
	if code := Main(context.Background(), e); code != exitFailed || !strings.Contains(stderr.String(), "without the plugin") {
		t.Errorf("exit %d, %s", code, stderr.String())
	}
}

// TestKeeper: the command serves its socket and ends when it is idle.
func TestKeeper(t *testing.T) {
	dir := t.TempDir()
	var stdout, stderr bytes.Buffer
	e := testEnv(&stdout, &stderr, "keeper", "-socket", filepath.Join(dir, "keeper.sock"), "-idle", "1ms")
	if code := Main(t.Context(), e); code != exitOK {
		t.Errorf("exit %d, %s", code, stderr.String())
	}
	e.Args[2] = filepath.Join(dir, "none", "keeper.sock")
	if code := Main(t.Context(), e); code != exitFailed {
		t.Errorf("without a folder: exit %d, %s", code, stderr.String())
	}
}

// TestCommandsAreDescribed: the help of every command that people use says what
// it is for.
func TestCommandsAreDescribed(t *testing.T) {
	seen := map[string]bool{}
	for _, c := range commands() {
		if c.name == "" || c.summary == "" || c.text == "" || c.run == nil || seen[c.name] {
			t.Errorf("command %+v is incomplete or there twice", c)
		}
		seen[c.name] = true
	}
}
