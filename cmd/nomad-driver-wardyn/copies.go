package main

import (
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"os"

	"github.com/wardyn/nomad-driver-wardyn/internal/control"
	"github.com/wardyn/nomad-driver-wardyn/internal/otlp"
	"github.com/wardyn/nomad-driver-wardyn/plugin"
)

// copies makes what takes copies of every record: the audit folder, and the
// sender to a collector.
func (p *parts) copies(h plugin.HostConfig, log *slog.Logger) (out []control.Copy, err error) {
	if h.OTLP != nil {
		if p.export, err = newExport(p.dir.Path("otlp"), *h.OTLP, log); err != nil {
			return nil, err
		}
		out = append(out, p.export)
	}
	if h.AuditDir != "" {
		if p.audit, err = control.OpenAudit(h.AuditDir, h.AuditRetention); err != nil {
			return nil, err
		}
		out = append(out, p.audit)
	}
	return out, nil
}

func newExport(dir string, h plugin.OTLPHost, log *slog.Logger) (*otlp.Exporter, error) {
	o := otlp.Options{Dir: dir, Limit: h.BufferBytes, URL: h.URL, Headers: h.Headers, Log: log}
	if h.CAFile != "" {
		b, err := os.ReadFile(h.CAFile)
		if err != nil {
			return nil, fmt.Errorf("otlp.ca_file: %w", err)
		}
		if o.Roots = x509.NewCertPool(); !o.Roots.AppendCertsFromPEM(b) {
			return nil, fmt.Errorf("otlp.ca_file: %s holds no certificate", h.CAFile)
		}
	}
	var err error
	o.Node, err = os.Hostname()
	return otlp.New(o), err
}

// beginCopies begins what only one process at a time may do.
func (p *parts) beginCopies() error {
	if p.export == nil {
		return nil
	}
	return p.export.Start()
}

// closeCopies ends them; what was not delivered stays on disk.
func (p *parts) closeCopies() error {
	err := p.audit.Close()
	if p.export != nil {
		err = errors.Join(err, p.export.Close())
	}
	return err
}
