package main

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"log/slog"

	"github.com/google/uuid"

	"github.com/wardyn/nomad-driver-wardyn/internal/control"
	"github.com/wardyn/nomad-driver-wardyn/internal/proxy/audit"
	"github.com/wardyn/nomad-driver-wardyn/internal/proxy/controlplane"
	"github.com/wardyn/nomad-driver-wardyn/plugin"
	"github.com/wardyn/nomad-driver-wardyn/runner/egress"
)

// external is the operator's control plane. Its token is read anew for each
// call, so that it can be changed without a restart.
type external struct {
	config *plugin.ControlPlaneConfig
	client *controlplane.Client
	log    *slog.Logger
}

// newExternal is nil without a control plane.
func newExternal(c *plugin.ControlPlaneConfig, log *slog.Logger) (control.External, error) {
	if c == nil {
		return nil, nil
	}
	client, err := controlplane.New(c.URL)
	if err != nil {
		return nil, err
	}
	return &external{c, client, log}, nil
}

// as is a client with the token for a run, as its file says now: the node's, or
// one of the run's own that is made of it.
func (e *external) as(run uuid.UUID) (*controlplane.Client, error) {
	token, err := e.config.Token()
	if err != nil {
		return nil, err
	}
	if token == "" {
		return nil, errors.New("control_plane.token_file is empty")
	}
	if e.config.PerRunTokens {
		token = runToken(token, run)
	}
	return e.client.With(token), nil
}

// runToken is "<run>.<HMAC-SHA256 of the run's id under the secret, in hex>". Who
// knows the secret can make sure which run a call is for, and who sees the token
// of one run cannot speak for another.
func runToken(secret string, run uuid.UUID) string {
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write([]byte(run.String()))
	return run.String() + "." + hex.EncodeToString(mac.Sum(nil))
}

func (e *external) Raise(ctx context.Context, run uuid.UUID, scope egress.ApprovalScope) (egress.ApprovalRequest, error) {
	c, err := e.as(run)
	if err != nil {
		return egress.ApprovalRequest{}, err
	}
	return c.Raise(ctx, run, scope)
}

func (e *external) Approval(ctx context.Context, run, id uuid.UUID) (egress.ApprovalRequest, error) {
	c, err := e.as(run)
	if err != nil {
		return egress.ApprovalRequest{}, err
	}
	return c.Approval(ctx, id)
}

// Decisions delivers a record. One that will never be taken is not sent again:
// it is in the files here.
func (e *external) Decisions(ctx context.Context, run uuid.UUID, record []byte) error {
	c, err := e.as(run)
	if err != nil {
		return err
	}
	err = c.Decisions(ctx, record)
	if errors.Is(err, audit.ErrRejected) {
		e.log.Error("the control plane rejects a record; it is kept on this node only", "error", err)
		return nil
	}
	return err
}
