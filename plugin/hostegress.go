package plugin

import (
	"fmt"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/wardyn/nomad-driver-wardyn/internal/control"
	"github.com/wardyn/nomad-driver-wardyn/runner/egress"
)

// EgressHost is what the operator decided about egress beyond lists of hosts.
type EgressHost struct {
	// CAFile is the bundle that upstream TLS is verified with; "" is the
	// host's own.
	CAFile string
	// Approvals says who may decide about first uses.
	Approvals ApprovalMode
	// Credentials are what jobs may have injected, by name.
	Credentials map[string]HostCredential
	// Intercept are hosts whose TLS is opened in every run.
	Intercept []string
	// AllowIntercept is the most that jobs may have opened.
	AllowIntercept []string
	// Upstream is the proxy that requests leave through; nil is none.
	Upstream *UpstreamProxy
	// AllowLearn lets jobs run in learn mode.
	AllowLearn bool
	// AuditDir keeps a copy of every record, for AuditRetention; "" keeps none.
	AuditDir       string
	AuditRetention time.Duration
	// ControlPlane decides about first uses and takes the records; nil is none.
	ControlPlane *ControlPlaneConfig
	// OTLP is a collector that takes a copy of every record; nil is none.
	OTLP *OTLPHost
	// DecisionLogMiB is the size of each of a run's two decision files; 0 is
	// the default.
	DecisionLogMiB int64
}

// ApprovalMode says who may decide about the first use of a host.
type ApprovalMode string

const (
	// ApprovalsOff: nobody; jobs cannot ask for a review.
	ApprovalsOff ApprovalMode = "off"
	// ApprovalsExec: whoever may use alloc exec on the task, its author too.
	ApprovalsExec ApprovalMode = "exec"
	// ApprovalsNode: root on the node.
	ApprovalsNode ApprovalMode = "node"
	// ApprovalsExternal: somebody else's control plane.
	ApprovalsExternal ApprovalMode = "external"
)

// HostCredential is one credential of the operator's.
type HostCredential struct {
	File    string
	Hosts   []string // exact, as they are compared
	Headers []string
	Format  string // "" is the header's usual one
	// Cleartext are destinations that it may be sent to unencrypted.
	Cleartext []egress.Authority
	For       tenants
}

// tenants are the jobs that something of the operator's is for.
type tenants struct {
	Namespaces []string
	Jobs       []string // empty is every job of the namespaces
}

// admits says why a job may not have it; "" is that it may. Only what Nomad
// itself says of a task counts.
func (t tenants) admits(namespace, job string) string {
	switch {
	case namespace == "":
		return "this client does not say which namespace a task is of (Nomad 1.1 and later do)"
	case !matches(t.Namespaces, namespace):
		return fmt.Sprintf("it is not for namespace %q", namespace)
	case len(t.Jobs) > 0 && !matches(t.Jobs, job):
		return fmt.Sprintf("it is not for job %q", job)
	}
	return ""
}

// matches compares with names, of which the last character may be a star.
func matches(patterns []string, name string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool {
		prefix, open := strings.CutSuffix(p, "*")
		return p == name || open && strings.HasPrefix(name, prefix)
	})
}

// egressHost reads the operator's options on egress.
func egressHost(f *faults, c EgressPluginConfig) EgressHost {
	h := EgressHost{CAFile: c.CAFile, Approvals: ApprovalMode(c.Approvals), AllowIntercept: c.AllowIntercept}
	checkHostFile(f, "ca_file", c.CAFile, false)
	switch h.Approvals {
	case "":
		h.Approvals = ApprovalsNode
	case ApprovalsOff, ApprovalsExec, ApprovalsNode, ApprovalsExternal:
	default:
		f.add("approvals", c.Approvals, "no such way of deciding", `write "node" (root on the node), "exec" (whoever may use alloc exec), "external" (a control plane) or "off"`)
	}
	h.Intercept = exactHosts(f, "intercept", c.Intercept)
	h.AllowLearn, h.Upstream = c.AllowLearn, upstreamProxy(f, c.UpstreamProxy)
	h.readAudit(f, c)
	h.ControlPlane, h.OTLP = c.ControlPlane, otlpHost(f, c.OTLP)
	checkControlPlane(f, h.Approvals, c.ControlPlane)
	for _, e := range c.AllowIntercept {
		if _, err := egress.ParseCeiling(e); err != nil {
			f.add("allow_intercept", nil, err.Error(), "")
		}
	}
	h.Credentials = readNamed(f, c.Credential, hostCredential)
	return h
}

// readNamed reads blocks that bear a name, in the order of their names, so that
// faults come in an order of their own; nil without any.
func readNamed[C, V any](f *faults, blocks map[string]C, read func(f *faults, name string, c C) V) map[string]V {
	if len(blocks) == 0 {
		return nil
	}
	out := make(map[string]V, len(blocks))
	for _, name := range slices.Sorted(maps.Keys(blocks)) {
		out[name] = read(f, name, blocks[name])
	}
	return out
}

func hostCredential(f *faults, name string, c CredentialConfig) HostCredential {
	at := func(option string) string { return "credential." + name + "." + option }
	checkName(f, "credential."+name, name)
	checkHostFile(f, at("file"), c.File, true)
	if len(c.Hosts) == 0 {
		f.add(at("hosts"), nil, "it is missing", "list the hosts that the credential may be sent to")
	}
	if len(c.Headers) == 0 {
		f.add(at("headers"), nil, "it is missing", `list the headers that may carry it, for instance ["Authorization"]`)
	}
	for _, hd := range c.Headers {
		checkHeader(f, at("headers"), hd)
	}
	checkFormat(f, at("format"), c.Format)
	hosts := exactHosts(f, at("hosts"), c.Hosts)
	return HostCredential{
		File: c.File, Hosts: hosts, Headers: c.Headers, Format: c.Format,
		Cleartext: readCleartext(f, at("cleartext"), c.Cleartext, hosts), For: readTenants(f, at, c.Namespaces, c.Jobs),
	}
}

func readTenants(f *faults, at func(string) string, namespaces, jobs []string) tenants {
	if len(namespaces) == 0 {
		f.add(at("namespaces"), nil, "it is missing", `list the namespaces it is for; ["*"] is every one`)
	}
	return tenants{Namespaces: namespaces, Jobs: jobs}
}

var blockName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.-]{0,62}$`)

func checkName(f *faults, field, name string) {
	if !blockName.MatchString(name) {
		f.add(field, nil, "a name has letters, digits, hyphens, dots and underscores, at most 63", "rename it")
	}
}

func checkHostFile(f *faults, field, file string, required bool) {
	switch {
	case file == "" && required:
		f.add(field, nil, "it is missing", "name a file of this node, by an absolute path")
	case file != "" && (!path.IsAbs(file) || path.Clean(file) != file):
		f.add(field, file, "want an absolute path without . and ..", "")
	}
}

// exactHosts reads names of hosts, without wildcards and ports.
func exactHosts(f *faults, field string, list []string) []string {
	var out []string
	for _, text := range list {
		h, err := egress.ParseHost(text)
		if err != nil || h.IsLocalhost() {
			f.add(field, text, "want the exact name of a host", "wildcards, ports and localhost cannot be named here")
			continue
		}
		out = append(out, h.String())
	}
	return out
}

var headerName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_-]{0,127}$`)

// framing are headers that are the proxy's own to write.
var framing = []string{
	"connection", "content-length", "expect", "host", "keep-alive", "proxy-authenticate", "proxy-authorization",
	"proxy-connection", "te", "trailer", "transfer-encoding", "upgrade", "http2-settings",
}

func checkHeader(f *faults, field, name string) {
	switch lower := strings.ToLower(name); {
	case name == "":
		f.add(field, nil, "the header is missing", `for instance header = "Authorization"`)
	case !headerName.MatchString(name):
		f.add(field, name, "that is no header", "")
	case slices.Contains(framing, lower) || strings.HasPrefix(lower, "x-wardyn-"):
		f.add(field, name, "this header is the proxy's own", "use the one that the host takes credentials in")
	}
}

func checkFormat(f *faults, field, format string) {
	if format == "" {
		return
	}
	if strings.Count(format, control.Placeholder) != 1 || len(format) > 256 ||
		strings.ContainsFunc(format, func(r rune) bool { return r < ' ' || r > '~' }) {
		f.add(field, format, "want printable text with one "+control.Placeholder+" where the secret goes", `for instance "Bearer {secret}"`)
	}
}
