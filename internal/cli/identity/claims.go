package identity

import (
	"strings"
	"time"

	"github.com/go-jose/go-jose/v4/jwt"

	"github.com/wardyn/nomad-driver-wardyn/internal/jobfile"
)

// Workload is whose tasks the identities are.
type Workload struct {
	Region, Namespace, Job, Group, Alloc string
}

// claims are what a token says. There is no issuer, as with servers that were
// not given one.
type claims struct {
	Namespace string `json:"nomad_namespace"`
	Job       string `json:"nomad_job_id"`
	Alloc     string `json:"nomad_allocation_id"`
	Task      string `json:"nomad_task"`
	jwt.Claims
}

// claim is what a token of one identity of a task says when it is issued now.
// id tells it from every other token.
func (w Workload) claim(task string, i jobfile.Identity, now time.Time, id string) claims {
	issued := jwt.NewNumericDate(now)
	c := claims{
		Namespace: w.Namespace, Job: w.Job, Alloc: w.Alloc, Task: task,
		Claims: jwt.Claims{
			Subject:  strings.Join([]string{w.Region, w.Namespace, w.Job, w.Group, task, i.Name}, ":"),
			Audience: i.Audience, IssuedAt: issued, NotBefore: issued, ID: id,
		},
	}
	if i.TTL > 0 {
		c.Expiry = jwt.NewNumericDate(now.Add(i.TTL))
	}
	return c
}
