package proxy

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"

	"github.com/wardyn/nomad-driver-wardyn/runner/egress"
)

// renewBefore is how long before its end a credential is resolved again.
const renewBefore = 5 * time.Minute

// credentials holds the values of all injection rules. Values live in memory
// only, and go to nobody but the origin that their rule names.
type credentials struct {
	group singleflight.Group

	mu     sync.RWMutex
	byHost map[egress.Host]*resolved
}

type resolved struct {
	grant   egress.InjectionGrant
	current credential
	checked time.Time
	expires time.Time // zero: never
}

// stale reports whether a value is to be resolved again: it is near its end,
// or was looked at longer ago than it is trusted.
func (r *resolved) stale(trust time.Duration) bool {
	if trust > 0 && time.Since(r.checked) >= trust {
		return true
	}
	return !r.expires.IsZero() && time.Until(r.expires) <= renewBefore
}

// errUnavailable: the control plane could not say what the value is now.
var errUnavailable = errors.New("the control plane did not answer")

// resolveCredentials resolves every grant once. One that fails fails the start:
// a run without its credential would only confuse.
func (s *Server) resolveCredentials(ctx context.Context) error {
	s.creds.byHost = map[egress.Host]*resolved{}
	var errs []error
	for _, g := range s.o.Config.Injection {
		h, err := egress.ParseHost(g.Host)
		if err == nil {
			err = s.resolveOne(ctx, h, g)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("injection rule for %s: %w", g.Host, err))
		}
	}
	return errors.Join(errs...)
}

func (s *Server) resolveOne(ctx context.Context, h egress.Host, g egress.InjectionGrant) error {
	if s.o.Control == nil {
		return errors.New("there is no control plane to resolve the grant")
	}
	got, err := s.o.Control.Injection(ctx, g.GrantID)
	if err != nil {
		var answered interface{ Refused() bool }
		if errors.As(err, &answered) && answered.Refused() {
			return err
		}
		return fmt.Errorf("%w: %w", errUnavailable, err)
	}
	header := got.Header
	if header == "" {
		return errors.New("the grant was resolved without a header")
	}
	if !strings.EqualFold(header, g.Header) {
		return fmt.Errorf("the grant is for header %s, the rule for %s", printable(header), g.Header)
	}
	if got.Host != "" && !sameHost(got.Host, g.Host) {
		return errors.New("the grant is for another host")
	}
	if err := checkValue(header, got.Value); err != nil {
		return err
	}
	s.o.Mask.Add(got.Value)
	if i := strings.LastIndexByte(got.Value, ' '); i >= 0 {
		s.o.Mask.Add(got.Value[i+1:])
	}
	r := &resolved{grant: g, current: newCredential(header, got.Value), checked: time.Now()}
	if got.ExpiresAt > 0 {
		r.expires = time.UnixMilli(got.ExpiresAt)
	}
	s.creds.mu.Lock()
	defer s.creds.mu.Unlock()
	s.creds.byHost[h] = r
	return nil
}

// checkValue refuses what could not stand in a header or could not be masked.
func checkValue(header, value string) error {
	for i := 0; i < len(header); i++ {
		if c := header[i]; c <= ' ' || c >= 0x7f || c == ':' {
			return errors.New("the header's name is not a token")
		}
	}
	for i := 0; i < len(value); i++ {
		if c := value[i]; c < ' ' && c != '\t' || c == 0x7f {
			return errors.New("the value holds a control character")
		}
	}
	if len(value) < 8 {
		return errors.New("the value is shorter than 8 bytes and could not be kept out of records")
	}
	return nil
}

// credentialFor returns what to inject into a request to a, or nil. A value
// that is not trusted any more is resolved again. While the control plane cannot
// be asked the last value serves until its end; when there is none any more the
// request fails, for nothing is sent without its credential.
func (s *Server) credentialFor(ctx context.Context, a egress.Authority) (*credential, error) {
	if !s.policy.InjectsAt(a) {
		return nil, nil
	}
	r := s.creds.get(a.Host)
	if r == nil {
		return nil, errors.New("the credential was never resolved")
	}
	if !r.stale(s.o.CredentialTrust) {
		return &r.current, nil
	}
	_, err, _ := s.creds.group.Do(a.Host.String(), func() (any, error) {
		return nil, s.resolveOne(context.WithoutCancel(ctx), a.Host, r.grant)
	})
	if err == nil {
		r = s.creds.get(a.Host)
		return &r.current, nil
	}
	s.log.Warn("credential not renewed", "host", a.Host.String(), "error", err)
	if errors.Is(err, errUnavailable) && (r.expires.IsZero() || time.Now().Before(r.expires)) {
		return &r.current, nil
	}
	return nil, err
}

func (c *credentials) get(h egress.Host) *resolved {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.byHost[h]
}
