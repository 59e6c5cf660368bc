package control

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"encoding/json"

	"github.com/google/uuid"

	"github.com/wardyn/nomad-driver-wardyn/internal/clean"
	"github.com/wardyn/nomad-driver-wardyn/runner/egress"
)

// Credential is a secret that a run's sidecar may ask for. Where it comes from
// only Read knows.
type Credential struct {
	Grant uuid.UUID
	// Name is what people know it by.
	Name string
	// Rule says into which requests the value goes. The zero Rule is that of a
	// token which the sidecar mints and uses by itself, such as a git server's.
	Rule egress.InjectionRule
	// Cleartext lists destinations on the rule's host where the operator lets
	// the value travel unencrypted.
	Cleartext []egress.Authority
	// Read returns the secret as it is now. Its error names no secret.
	Read func() (string, error)
}

// Placeholder is what a rule's format has where the secret goes.
const Placeholder = "{secret}"

const (
	// minCredential is the shortest secret that can be kept out of records.
	minCredential = clean.Shortest
	// maxCredential bounds a header's value.
	maxCredential = 16 << 10
	// mintedLife is how long a minted token is used before its source is read
	// again. Sidecars begin a minute before the end.
	mintedLife = time.Minute + 30*time.Second
)

// Value is the secret as it is now: without the line break that a file ends
// with, and fit for a header.
func (c Credential) Value() (string, error) {
	v, err := c.Read()
	if err != nil {
		return "", err
	}
	v = strings.TrimRight(v, "\r\n")
	switch {
	case len(v) < minCredential:
		return "", fmt.Errorf("the secret has fewer than %d bytes and could not be kept out of records", minCredential)
	case len(v) > maxCredential:
		return "", fmt.Errorf("the secret has more than %d bytes", maxCredential)
	case strings.ContainsFunc(v, func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }):
		return "", errors.New("the secret holds a line break or another control character")
	}
	return v, nil
}

// filled is the header's value.
func (c Credential) filled(secret string) string {
	format := c.Rule.Format
	if format == "" {
		format = Placeholder
	}
	return strings.Replace(format, Placeholder, secret, 1)
}

// credential finds a grant of the run; whether it is one to inject must be as
// the caller expects.
func (r *run) credential(grant uuid.UUID, inject bool) (Credential, bool) {
	r.keep.Lock()
	defer r.keep.Unlock()
	for _, c := range r.owner.Credentials {
		if c.Grant == grant && (c.Rule.Host != "") == inject {
			return c, true
		}
	}
	return Credential{}, false
}

// serveInjection answers with the finished value of one header. The value is
// never kept: each time its source is read anew.
func (r *run) serveInjection(w http.ResponseWriter, q query) {
	c, secret, ok := r.secret(w, q.id, true)
	if !ok {
		return
	}
	answer(w, egress.ResolvedInjection{Host: c.Rule.Host, Header: c.Rule.Header, Value: c.filled(secret)})
}

// serveMint answers with a token that the sidecar uses by itself.
func (r *run) serveMint(w http.ResponseWriter, q query) {
	var m egress.MintRequest
	if err := json.Unmarshal(q.body, &m); err != nil {
		refuse(w, http.StatusBadRequest, "not a mint request: "+err.Error())
		return
	}
	_, secret, ok := r.secret(w, m.GrantID, false)
	if !ok {
		return
	}
	answer(w, egress.MintedCredential{Token: secret, ExpiresAt: time.Now().Add(mintedLife).UnixMilli()})
}

// secret reads a grant's secret and has it masked from now on; without one the
// answer is given.
func (r *run) secret(w http.ResponseWriter, grant uuid.UUID, inject bool) (Credential, string, bool) {
	c, known := r.credential(grant, inject)
	if !known {
		refuse(w, http.StatusNotFound, "the run has no such grant")
		return c, "", false
	}
	v, err := c.Value()
	if err != nil {
		r.log.Error("a credential cannot be read; requests that need it are refused", "name", c.Name, "error", err)
		refuse(w, http.StatusFailedDependency, "the credential cannot be read now")
		return c, "", false
	}
	r.hide(v, c.filled(v))
	return c, v, true
}

// hide keeps values out of everything that is recorded from now on.
func (r *run) hide(values ...string) {
	r.keep.Lock()
	defer r.keep.Unlock()
	r.mask = r.mask.with(values...)
}

// known are the secrets of an owner's credentials that can be read now.
func (o Run) SecretValues() []string {
	out := append([]string(nil), o.Secrets...)
	for _, c := range o.Credentials {
		if v, err := c.Value(); err == nil {
			out = append(out, v, c.filled(v))
		}
	}
	return out
}
