package keeper

import (
	"context"
	"errors"
	"testing"
)

// TestK8NobodyWaitsPastItsDeadline: one start of a keeper takes as long as the
// node lets it, and another that waits for it ends when its caller does.
func TestK8NobodyWaitsPastItsDeadline(t *testing.T) {
	c := Client{Socket: t.TempDir() + "/k", Command: []string{"false"}}
	if err := c.starting.take(t.Context()); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := c.keeper().start(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("a start behind another: %v", err)
	}
	c.starting.give()
	if err := c.keeper().start(t.Context()); err == nil || errors.Is(err, context.Canceled) {
		t.Errorf("the next one: %v", err)
	}
}
