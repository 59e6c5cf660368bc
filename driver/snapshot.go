package driver

import (
	"crypto/rand"
	"encoding/hex"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// snapshotRepository begins the name of every snapshot.
const snapshotRepository = "wardyn-snap"

// mintedRef is a new snapshot's ref: 12 digits of the run's id and something
// that no other call has.
func mintedRef(run string) string {
	short := strings.ReplaceAll(run, "-", "")
	return snapshotRepository + ":" + short[:min(12, len(short))] + "-" + strings.ToLower(rand.Text())
}

var repositoryPart = regexp.MustCompile(`^[a-z0-9]+(-+[a-z0-9]+)*$`)

// NamedSnapshot is the ref of a snapshot that was given a name: the namespace
// is part of it. A namespace in characters that no repository may have is
// written in hex.
func NamedSnapshot(namespace, name string) string {
	ns := namespace
	if !repositoryPart.MatchString(ns) || strings.HasPrefix(ns, "x-") {
		ns = "x-" + hex.EncodeToString([]byte(ns))
	}
	return snapshotRepository + "/" + ns + "/" + name
}

// channelEnv are the variables by which a session's own things reach it.
var channelEnv = []string{
	"RAINIER_SETUP_B64", "RAINIER_SETUP_TIMEOUT", "RAINIER_REPOS_B64", "RAINIER_INIT_B64", "RAINIER_INIT_TIMEOUT",
	"RAINIER_GIT_AUTHOR_NAME", "RAINIER_GIT_AUTHOR_EMAIL", "WARDYN_DIAL", "WARDYN_SESSION",
	"HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy", "NO_PROXY", "no_proxy",
}

// StripEnv names what a snapshot of a session must not keep: the channel's
// variables and those of its own environment.
func StripEnv(env map[string]string) []string {
	return slices.Compact(slices.Sorted(slices.Values(slices.AppendSeq(slices.Clone(channelEnv), maps.Keys(env)))))
}
