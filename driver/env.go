package driver

import (
	"encoding/base64"
	"encoding/json"
	"maps"
	"strconv"
)

// environment is a session's whole environment: what the driver has to say,
// then Spec.Env, then what the layer above fixed in Spec.Sandbox.Env, each
// winning over the one before. Substrates sort it, so order is no
// matter, and they alone add the proxy's variables.
//
// Names that begin with a reserved prefix are the driver's; check refuses
// them in Spec.Env, so nothing of a job's can pose as a channel of ours.
func environment(s Spec) map[string]string {
	env := map[string]string{}
	set := func(name, value string) {
		if value != "" {
			env[name] = value
		}
	}
	set("WARDYN_DIAL", s.DialURL)
	set("WARDYN_SESSION", s.SessionID)
	channel(env, "RAINIER_SETUP", s.Setup, s.SetupTimeoutSec)
	if len(s.Repos) > 0 {
		set("RAINIER_REPOS_B64", short(encodeRepos(s.Repos)))
	}
	channel(env, "RAINIER_INIT", s.Init, s.InitTimeoutSec)
	set("RAINIER_GIT_AUTHOR_NAME", s.GitAuthorName)
	set("RAINIER_GIT_AUTHOR_EMAIL", s.GitAuthorEmail)
	maps.Copy(env, s.Env)
	maps.Copy(env, s.Sandbox.Env)
	return env
}

// channel carries a script and its bound. Without a script neither variable
// exists: an empty bound is not the same as none.
func channel(env map[string]string, name, script string, timeoutSec int) {
	text := short(base64.StdEncoding.EncodeToString([]byte(script)))
	if text == "" {
		return
	}
	env[name+"_B64"] = text
	env[name+"_TIMEOUT"] = strconv.Itoa(timeoutSec)
}

// maxChannel is the longest value that a variable of the channel has: no
// program starts with one over 128 KiB. What does the work are the stages'
// files; the variables are there for programs that look for them.
const maxChannel = 96 << 10

// short is text, or nothing when it is too long for a variable.
func short(text string) string {
	if len(text) > maxChannel {
		return ""
	}
	return text
}

// encodeRepos writes the list in its order. Strings always marshal.
func encodeRepos(repos []RepoSpec) string {
	b, _ := json.Marshal(repos)
	return base64.StdEncoding.EncodeToString(b)
}
