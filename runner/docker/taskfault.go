package docker

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/wardyn/nomad-driver-wardyn/runner"
)

// asked is what a task asked for and only the engine can judge.
type asked struct {
	image, user, workDir, cpus, appArmor string

	ulimits []runner.Ulimit
}

// askedBy is what stands in a spec.
func askedBy(spec runner.SandboxSpec) asked {
	a := asked{image: spec.Image}
	if t := spec.Task; t != nil {
		a.user, a.workDir, a.cpus, a.appArmor, a.ulimits = t.User, t.WorkDir, t.CpusetCpus, t.AppArmor, t.Ulimits
	}
	return a
}

// knownWord is something an engine says when a task's option is at fault.
type knownWord struct {
	words  []string // any of them is in the engine's text, in lower case
	fault  error    // the contract's word for it
	option func(asked) (name, value string)
	reason string
	fix    string
}

func imageOption(a asked) (string, string)   { return "image", a.image }
func userOption(a asked) (string, string)    { return "user", a.user }
func workDirOption(a asked) (string, string) { return "work_dir", a.workDir }
func cpusOption(a asked) (string, string)    { return "cpuset_cpus", a.cpus }

// appArmorOption is the operator's profile that a task chose.
func appArmorOption(a asked) (string, string) {
	if a.appArmor == "" {
		return "", ""
	}
	return "apparmor_profile", a.appArmor
}

// ulimitOption is one of the limits of processes.
func ulimitOption(name string) func(asked) (string, string) {
	return func(a asked) (string, string) {
		i := slices.IndexFunc(a.ulimits, func(u runner.Ulimit) bool { return u.Name == name })
		if i < 0 {
			return "", ""
		}
		return "ulimit." + name, fmt.Sprintf("%d:%d", a.ulimits[i].Soft, a.ulimits[i].Hard)
	}
}

// limitNumbers are the limits of processes by the kernel's numbers, which is how
// runtimes call them.
var limitNumbers = []string{
	"cpu", "fsize", "data", "stack", "core", "rss", "nproc", "nofile", "memlock", "as", "locks", "sigpending", "msgqueue", "nice", "rtprio", "rttime",
}

// limitWords are what a runtime says of limits that it cannot set; of two numbers
// that begin alike the longer one comes first.
func limitWords() (out []knownWord) {
	for n, name := range slices.Backward(limitNumbers) {
		out = append(out, knownWord{[]string{fmt.Sprintf("error setting rlimit type %d", n)}, runner.ErrInvalid, ulimitOption(name),
			"this node lets nobody have so much", "ask for less, or remove the line"})
	}
	return out
}

// startWords are said when a container is created or started, nameWords when an
// image is looked for, pullWords when one is fetched. The first that matches
// counts.
var (
	startWords = append(limitWords(), []knownWord{
		{[]string{"unable to find user", "no matching entries in passwd file"}, runner.ErrInvalid, userOption,
			"the image has no user of this name", `name one of the image's /etc/passwd, or numbers such as "1000:1000"`},
		{[]string{"unable to find group", "no matching entries in group file"}, runner.ErrInvalid, userOption,
			"the image has no group of this name", `name one of the image's /etc/group, or numbers such as "1000:1000"`},
		{[]string{"cannot mkdir", "chdir to cwd", "mkdir workdir"}, runner.ErrInvalid, workDirOption,
			"in the image this is no folder, or not one that the task's user may enter", "name another folder, for instance /workspace"},
		{[]string{"no space left on device"}, runner.ErrUnavailable, imageOption,
			"the engine's disk is full", "remove what is not needed on the node; nomad-driver-wardyn doctor shows how much is free"},
		{[]string{"apparmor failed to apply profile"}, runner.ErrInvalid, appArmorOption,
			"no profile of this name is loaded on this node", "have the operator load it, or remove the line"},
		{[]string{"requested cpus are not available", "for cpuset cpus"}, runner.ErrInvalid, cpusOption,
			"this node has no such CPUs", "name some that it has, lower numbers first, or remove the line"},
	}...)
	nameWords = []knownWord{
		{[]string{"invalid reference format", "invalid repository name", "invalid tag format"}, runner.ErrInvalid, imageOption,
			"that is no name of an image", `write it as "registry/name:tag" or "name@sha256:..."`},
	}
	pullWords = []knownWord{
		{[]string{"no matching manifest"}, runner.ErrInvalid, imageOption,
			"its registry has it for other machines only", "name an image that is made for this node's architecture"},
		{[]string{"pull access denied", "unauthorized", "authentication required", "no basic auth credentials", "denied: "}, runner.ErrDenied, imageOption,
			"it is not on this node, and its registry has none of this name for these credentials", "check the name, and the credentials that go with the registry"},
		{[]string{"manifest unknown", "manifest for", "not found: manifest", "name unknown", "repository name not known"}, runner.ErrNotFound, imageOption,
			"it is not on this node, and its registry has none of this name and tag", "check name and tag"},
		{[]string{"toomanyrequests", "too many requests", "rate limit"}, runner.ErrUnavailable, imageOption,
			"its registry allows no more pulls for now", "wait, pull with credentials, or load the image on the node"},
		{[]string{"no space left on device"}, runner.ErrUnavailable, imageOption,
			"the engine's disk is full", "remove what is not needed on the node; nomad-driver-wardyn doctor shows how much is free"},
		{[]string{"x509:", "server gave http response to https client"}, runner.ErrUnavailable, imageOption,
			"it is not on this node, and the engine does not trust its registry", "give the engine the registry's certificate, or list it in the engine's insecure-registries"},
		{[]string{"no such host", "connection refused", "i/o timeout", "network is unreachable", "no route to host", "tls handshake timeout", "context deadline exceeded", "client.timeout exceeded"},
			runner.ErrUnavailable, imageOption,
			"it is not on this node, and its registry cannot be reached", "check the name and the node's network, or load the image on the node"},
	}
)

// explained names the option behind an engine's error, its value and what to
// do, and keeps the engine's own words behind them. Other errors are as they
// were.
func explained(err error, a asked, known []knownWord) error {
	if err == nil {
		return nil
	}
	text := strings.ToLower(err.Error())
	i := slices.IndexFunc(known, func(k knownWord) bool {
		return slices.ContainsFunc(k.words, func(w string) bool { return strings.Contains(text, w) })
	})
	if i < 0 {
		return err
	}
	k := known[i]
	name, value := k.option(a)
	if name == "" { // nobody asked for it
		return err
	}
	if value == "" { // the image's own
		name, value = "image", a.image
	}
	fault := fmt.Errorf("%s = %q: %s; %s (%w)", name, value, k.reason, k.fix, bounded{err})
	if errors.Is(err, k.fault) {
		return fault
	}
	return fmt.Errorf("%w: %w", k.fault, fault)
}
