package cli

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"
)

// testEnv is an Env whose output the test reads and whose hooks say their name.
func testEnv(stdout, stderr *bytes.Buffer, args ...string) Env {
	return Env{
		Args: args, Stdout: stdout, Stderr: stderr, Version: "1.2.3",
		Getenv:      func(string) string { return "" },
		ServePlugin: func() error { return errors.New("served") },
		Keeper:      func(_ context.Context, args []string) error { return errors.New("kept " + strings.Join(args, ",")) },
	}
}

func TestDispatch(t *testing.T) {
	cookie := func(value string) func(string) string {
		return func(key string) string {
			if key == "NOMAD_PLUGIN_MAGIC_COOKIE" {
				return value
			}
			return ""
		}
	}
	for name, c := range map[string]struct {
		args   []string
		cookie string
		code   int
		stdout string
		stderr string
	}{
		"no command":            {nil, "", 2, "", "Usage: nomad-driver-wardyn COMMAND"},
		"unknown command":       {[]string{"rnu"}, "", 2, "", `there is no command "rnu"`},
		"help":                  {[]string{"help"}, "", 0, "version", ""},
		"-h":                    {[]string{"-h"}, "", 0, "Usage:", ""},
		"help of a command":     {[]string{"help", "version"}, "", 0, "-json", ""},
		"help of nothing":       {[]string{"help", "x"}, "", 2, "", `there is no command "x"`},
		"help by flag":          {[]string{"version", "-h"}, "", 0, "Usage: nomad-driver-wardyn version [-json]", ""},
		"unknown flag":          {[]string{"version", "-x"}, "", 2, "", "flag provided but not defined: -x"},
		"version":               {[]string{"version"}, "", 0, "nomad-driver-wardyn 1.2.3 (", ""},
		"--version":             {[]string{"--version"}, "", 0, "nomad-driver-wardyn 1.2.3 (", ""},
		"version in JSON":       {[]string{"version", "-json"}, "", 0, `"version":"1.2.3"`, ""},
		"keeper":                {[]string{"keeper", "a", "b"}, "", 1, "", "kept a,b"},
		"plugin":                {nil, cookieValue, 1, "", "served"},
		"plugin with arguments": {[]string{"version"}, cookieValue, 1, "", "served"},
		"another cookie":        {[]string{"version"}, "other", 0, "nomad-driver-wardyn 1.2.3", ""},
		"keeper of a plugin":    {[]string{"keeper"}, cookieValue, 1, "", "kept "},
	} {
		var stdout, stderr bytes.Buffer
		e := testEnv(&stdout, &stderr, c.args...)
		e.Getenv = cookie(c.cookie)
		code := Main(context.Background(), e)
		if code != c.code || !strings.Contains(stdout.String(), c.stdout) || !strings.Contains(stderr.String(), c.stderr) ||
			(c.stdout == "") != (stdout.Len() == 0) || (c.stderr == "") != (stderr.Len() == 0) {
			t.Errorf("%s: exit %d\nstdout: %s\nstderr: %s", name, code, stdout.String(), stderr.String())
		}
	}
}

// TestMissingParts: a program without plugin or keeper says so.
func TestMissingParts(t *testing.T) {
	for _, c := range []struct{ arg, cookie, want string }{{"keeper", "", "without the keeper"}, {"x", cookieValue, "without the plugin"}} {
		var stdout, stderr bytes.Buffer
		e := Env{Args: []string{c.arg}, Stdout: &stdout, Stderr: &stderr, Getenv: func(string) string { return c.cookie }}
		if code := Main(context.Background(), e); code != exitFailed || !strings.Contains(stderr.String(), c.want) {
			t.Errorf("%s: exit %d, %s", c.arg, code, stderr.String())
		}
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
