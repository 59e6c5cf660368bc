package docker

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/google/uuid"

	"github.com/wardyn/nomad-driver-wardyn/runner"
	"github.com/wardyn/nomad-driver-wardyn/runner/egress"
)

// proxyHost is the sidecar's name in every sandbox.
const proxyHost = egress.SidecarName

// proxyURL is where clients that know of proxies find the sidecar.
var proxyURL = "http://" + proxyHost + ":" + strconv.Itoa(runner.ProxyListenPort)

// noProxy names what clients must ask for directly: the sandbox itself, and
// the sidecar's own routes.
const noProxy = "localhost,127.0.0.1,::1,[::1],wardyn-proxy,host.docker.internal"

// maxEnvString is where Linux refuses to start a program (MAX_ARG_STRLEN).
const maxEnvString = 128 << 10

// callerEnv are the names in the reserved namespaces that the layers above
// set. Any other is a job's attempt to pass for them.
var callerEnv = []string{
	"RAINIER_DIAL", "RAINIER_SESSION", "RAINIER_GIT_AUTHOR_EMAIL", "RAINIER_GIT_AUTHOR_NAME",
	"RAINIER_INIT_B64", "RAINIER_INIT_TIMEOUT", "RAINIER_REPOS_B64", "RAINIER_SETUP_B64", "RAINIER_SETUP_TIMEOUT",
	"WARDYN_DIAL", "WARDYN_SESSION", "WARDYN_MITM_CA_PEM", "WARDYN_RUN_ID", "WARDYN_PROXY_URL",
	"WARDYN_GITHUB_GRANT_ID", "WARDYN_GIT_PAT_GRANTS", "WARDYN_SSH_GRANTS", "WARDYN_REPOS",
	"WARDYN_TASK_MODE", "WARDYN_RECORDING",
}

// sandboxEnv is the agent's environment, sorted, so that one spec always gives
// one configuration. The image's own variables stay underneath; the proxy's
// win over both.
func sandboxEnv(run uuid.UUID, caller map[string]string, networked bool, ca string) []string {
	env := maps.Clone(caller)
	if env == nil {
		env = make(map[string]string)
	}
	env["WARDYN_RUN_ID"] = run.String()
	if networked {
		env["WARDYN_PROXY_URL"] = proxyURL
		// curl reads the lower-case http_proxy only, others the upper-case one.
		for _, k := range []string{"HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"} {
			env[k] = proxyURL
		}
		env["NO_PROXY"], env["no_proxy"] = noProxy, noProxy
	}
	if networked && ca != "" {
		for k, v := range caEnv(ca) {
			if _, own := caller[k]; !own || isReservedEnv(k) {
				env[k] = v
			}
		}
	}
	out := make([]string, 0, len(env))
	for k, v := range env {
		out = append(out, k+"="+v)
	}
	slices.Sort(out)
	return out
}

// caEnv points programs to the run's own CA, whose files the sandbox's init
// writes. Variables that replace a trust store name the image's roots with the
// CA behind them, those that add to one the CA alone.
func caEnv(ca string) map[string]string {
	env := map[string]string{"WARDYN_MITM_CA_PEM": ca, "NODE_EXTRA_CA_CERTS": "/tmp/wardyn/mitm-ca.pem"}
	for _, k := range []string{
		"SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "GIT_SSL_CAINFO", "PIP_CERT",
		"AWS_CA_BUNDLE", "CARGO_HTTP_CAINFO", "DENO_CERT",
	} {
		env[k] = "/tmp/wardyn/ca-bundle.pem"
	}
	return env
}

// checkEnv refuses what cannot be an environment, and reserved names that
// nobody above sets.
func checkEnv(env map[string]string) (errs []error) {
	for _, k := range slices.Sorted(maps.Keys(env)) {
		switch {
		case k == "" || strings.ContainsAny(k, "=\x00"):
			errs = append(errs, fmt.Errorf("env: %q cannot be the name of a variable", k))
		case strings.ContainsRune(env[k], 0):
			errs = append(errs, fmt.Errorf("env %s: the value has a NUL byte", k))
		case len(k)+len(env[k])+2 > maxEnvString:
			errs = append(errs, fmt.Errorf("env %s: %d bytes; no program starts with a variable over %d bytes, deliver it as a file", k, len(env[k]), maxEnvString))
		case isReservedEnv(k) && !slices.Contains(callerEnv, k):
			errs = append(errs, fmt.Errorf("env %s: names that start with WARDYN_ or RAINIER_ are the driver's; choose another", k))
		}
	}
	return errs
}

func isReservedEnv(k string) bool {
	return strings.HasPrefix(k, "WARDYN_") || strings.HasPrefix(k, "RAINIER_")
}
