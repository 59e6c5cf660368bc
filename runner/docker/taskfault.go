package docker

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/wardyn/nomad-driver-wardyn/runner"
)

// asked is what a task asked for and only the engine can judge.
type asked struct{ image, user, workDir string }

// askedBy is what stands in a spec.
func askedBy(spec runner.SandboxSpec) asked {
	a := asked{image: spec.Image}
	if t := spec.Task; t != nil {
		a.user, a.workDir = t.User, t.WorkDir
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

// startWords are said when a container is created or started, nameWords when an
// image is looked for, pullWords when one is fetched. The first that matches
// counts.
var (
	startWords = []knownWord{
		{[]string{"unable to find user", "no matching entries in passwd file"}, runner.ErrInvalid, userOption,
			"the image has no user of this name", `name one of the image's /etc/passwd, or numbers such as "1000:1000"`},
		{[]string{"unable to find group", "no matching entries in group file"}, runner.ErrInvalid, userOption,
			"the image has no group of this name", `name one of the image's /etc/group, or numbers such as "1000:1000"`},
		{[]string{"cannot mkdir", "chdir to cwd", "mkdir workdir"}, runner.ErrInvalid, workDirOption,
			"in the image this is no folder, or not one that the task's user may enter", "name another folder, for instance /workspace"},
		{[]string{"no space left on device"}, runner.ErrUnavailable, imageOption,
			"the engine's disk is full", "remove what is not needed on the node; nomad-driver-wardyn doctor shows how much is free"},
	}
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
	if value == "" { // the image's own
		name, value = "image", a.image
	}
	fault := fmt.Errorf("%s = %q: %s; %s (%w)", name, value, k.reason, k.fix, bounded{err})
	if errors.Is(err, k.fault) {
		return fault
	}
	return fmt.Errorf("%w: %w", k.fault, fault)
}
