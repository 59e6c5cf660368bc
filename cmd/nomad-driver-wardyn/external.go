package main

import (
	"context"
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

func (e *external) sign() error {
	token, err := e.config.Token()
	if err == nil && token == "" {
		err = errors.New("control_plane.token_file is empty")
	}
	if err == nil {
		e.client.SetToken(token)
	}
	return err
}

func (e *external) Raise(ctx context.Context, run uuid.UUID, scope egress.ApprovalScope) (egress.ApprovalRequest, error) {
	if err := e.sign(); err != nil {
		return egress.ApprovalRequest{}, err
	}
	return e.client.Raise(ctx, run, scope)
}

func (e *external) Approval(ctx context.Context, id uuid.UUID) (egress.ApprovalRequest, error) {
	if err := e.sign(); err != nil {
		return egress.ApprovalRequest{}, err
	}
	return e.client.Approval(ctx, id)
}

// Decisions delivers a record. One that will never be taken is not sent again:
// it is in the files here.
func (e *external) Decisions(ctx context.Context, record []byte) error {
	if err := e.sign(); err != nil {
		return err
	}
	err := e.client.Decisions(ctx, record)
	if errors.Is(err, audit.ErrRejected) {
		e.log.Error("the control plane rejects a record; it is kept on this node only", "error", err)
		return nil
	}
	return err
}
