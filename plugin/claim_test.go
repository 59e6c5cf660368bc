package plugin

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
)

// stubbornClaim is refused as long as taken is set.
type stubbornClaim struct {
	taken error
	log   *[]string
}

func (c *stubbornClaim) Take(context.Context, time.Duration) error {
	*c.log = append(*c.log, "take")
	return c.taken
}

func (c *stubbornClaim) Give() { *c.log = append(*c.log, "give") }

// K34: a process that takes its claim back begins again: another may have taken
// the place of what it had begun.
func TestReclaimBeginsAgain(t *testing.T) {
	var log []string
	claim := &stubbornClaim{log: &log}
	p := New(Options{Version: "1.2.3", Build: func(context.Context, HostConfig, *slog.Logger) (*Backend, error) {
		return &Backend{Claim: claim, Begin: func() error { log = append(log, "begin"); return nil }}, nil
	}}, hclog.NewNullLogger())
	t.Cleanup(func() { p.built = nil })
	for range 3 {
		if _, err := p.backend(); err != nil {
			t.Fatal(err)
		}
	}
	p.giveUpIfOrphaned() // its client is gone
	if _, err := p.backend(); err != nil || p.unattended() {
		t.Fatalf("unattended %v, %v", p.unattended(), err)
	}
	if want := []string{"take", "begin", "give", "take", "begin"}; !slices.Equal(log, want) {
		t.Errorf("%v, want %v", log, want)
	}
}

// K3: a second plugin on a data dir begins nothing that would get in the way of
// the first, and keeps nothing open for its next try.
func TestK3NothingBeginsWithoutTheClaim(t *testing.T) {
	var log []string
	claim := &stubbornClaim{taken: errors.New("in use by another plugin"), log: &log}
	var begin error
	p := New(Options{Version: "1.2.3", Build: func(context.Context, HostConfig, *slog.Logger) (*Backend, error) {
		return &Backend{
			Claim: claim,
			Begin: func() error { log = append(log, "begin"); return begin },
			Close: func() error { log = append(log, "close"); return nil },
		}, nil
	}}, hclog.NewNullLogger())
	t.Cleanup(func() { p.built = nil })
	for _, step := range []struct {
		taken, begin error
		want         []string
	}{
		{claim.taken, nil, []string{"take", "close"}},
		{nil, errors.New("no socket"), []string{"take", "begin", "give", "close"}},
		{nil, nil, []string{"take", "begin"}},
	} {
		log, claim.taken, begin = nil, step.taken, step.begin
		_, err := p.backend()
		if !slices.Equal(log, step.want) || (err == nil) != (errors.Join(step.taken, step.begin) == nil) {
			t.Errorf("%v: %v, want %v", log, err, step.want)
		}
	}
}
