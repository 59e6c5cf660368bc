package driver

import (
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"unicode"

	"github.com/wardyn/nomad-driver-wardyn/runner"
)

// sidecarURL is the one proxy a session may be told of.
var sidecarURL = fmt.Sprintf("http://wardyn-proxy:%d", runner.ProxyListenPort)

// reservedEnv are prefixes of variables that belong to the driver.
var reservedEnv = []string{"WARDYN_", "RAINIER_"}

// check finds every fault of a Spec at once, before anything is created.
func check(s Spec, defaultImage string) error {
	var faults []error
	add := func(format string, args ...any) {
		faults = append(faults, fmt.Errorf("%w: "+format, append([]any{runner.ErrInvalid}, args...)...))
	}
	if imageOf(s, defaultImage) == "" {
		add("image: there is none, and no default")
	}
	if s.Image != "" && s.Sandbox.Image != "" && s.Image != s.Sandbox.Image {
		add("image: %q and sandbox image %q are two different ones", s.Image, s.Sandbox.Image)
	}
	if s.ProxyURL != "" && s.ProxyURL != sidecarURL {
		add("proxy_url %q: a session's proxy is its own sidecar; leave it empty, and name a corporate proxy as the sidecar's upstream", s.ProxyURL)
	}
	checkScripts(s, add)
	checkRepos(s.Repos, add)
	checkHome(s.Home, add)
	checkEnv(s.Env, add)
	checkSandbox(s, add)
	for _, m := range s.Sandbox.Mounts {
		if err := runner.ValidateMount(m); err != nil {
			faults = append(faults, err)
		}
	}
	return errors.Join(faults...)
}

func checkScripts(s Spec, add func(string, ...any)) {
	for _, script := range []struct{ name, text string }{{"setup", s.Setup}, {"init", s.Init}} {
		if n := len(script.text); n > MaxSetupBytes {
			add("%s: the script has %d bytes, the limit is %d", script.name, n, MaxSetupBytes)
		}
	}
}

func checkHome(h *HomeMount, add func(string, ...any)) {
	switch {
	case h == nil:
	case h.Volume == "" || h.Path == "":
		add("home: volume %q and path %q must both be given", h.Volume, h.Path)
	case !path.IsAbs(h.Path) || path.Clean(h.Path) != h.Path || h.Path == "/":
		add("home: path %q: want an absolute, clean path below /", h.Path)
	}
}

func checkEnv(env map[string]string, add func(string, ...any)) {
	for _, name := range slices.Sorted(maps.Keys(env)) {
		switch {
		case name == "" || strings.ContainsAny(name, "=\x00"):
			add("env %q: no variable can have this name", name)
		case strings.ContainsRune(env[name], 0):
			add("env %q: its value holds a NUL", name)
		case slices.ContainsFunc(reservedEnv, func(p string) bool { return strings.HasPrefix(name, p) }):
			add("env %q: names that begin with %s are the driver's", name, strings.Join(reservedEnv, " or "))
		}
	}
}

func checkSandbox(s Spec, add func(string, ...any)) {
	class, floor := s.Sandbox.ConfinementClass, s.Sandbox.ProxyConfig.Policy.MinConfinementClass
	if class != "" && class.Rank() == 0 {
		add("confinement %q: want CC1, CC2 or CC3", class)
	}
	if floor != "" && floor.Rank() == 0 {
		add("min_confinement_class %q: want CC1, CC2 or CC3", floor)
	}
	if max(class.Rank(), 1) < floor.Rank() {
		add("confinement %q is below the policy's minimum %q", class, floor)
	}
	task := s.Sandbox.Task
	if task == nil {
		return
	}
	if len(s.Cmd) > 0 && len(task.Argv) > 0 {
		add("command: %q and the sandbox's %q are two different ones", s.Cmd, task.Argv)
	}
	if task.Idle && len(s.Cmd)+len(task.Argv) > 0 {
		add("idle: an idle session has no command; drop one of the two")
	}
}

// unsupported names the options that are set and that no sandbox is made by: its
// network and its profiles are the sandbox's own. It is one error for all of
// them, nil for none.
func unsupported(o DockerOpts) error {
	var fields []string
	for _, f := range []struct {
		name string
		used bool
	}{
		{"DockerOpts.Network", o.Network != ""},
		{"DockerOpts.SessionSeccompProfile", o.SessionSeccompProfile != ""},
		{"DockerOpts.SessionAppArmorProfile", o.SessionAppArmorProfile != ""},
	} {
		if f.used {
			fields = append(fields, f.name)
		}
	}
	if fields == nil {
		return nil
	}
	return fmt.Errorf("%s: %w; leave out what is named", strings.Join(fields, ", "), runner.ErrUnsupported)
}

func imageOf(s Spec, defaultImage string) string {
	for _, image := range []string{s.Image, s.Sandbox.Image} {
		if image != "" {
			return image
		}
	}
	return defaultImage
}

// checkStrip refuses names that no variable has: blanking one of them would
// blank nothing and look as if it had.
func checkStrip(names []string) error {
	for _, n := range names {
		if n == "" || strings.ContainsFunc(n, func(r rune) bool { return r == '=' || r == 0 || unicode.IsSpace(r) }) {
			return fmt.Errorf("strip %q: %w: no variable can have this name", n, runner.ErrInvalid)
		}
	}
	return nil
}
