package keeper

import (
	"context"
	"sync"
)

// turn is a lock whose wait ends with a context: who holds it may take the half
// minute of startWait. The zero value is free.
type turn struct {
	once sync.Once
	free chan struct{}
}

func (t *turn) take(ctx context.Context) error {
	t.once.Do(func() { t.free = make(chan struct{}, 1) })
	select {
	case t.free <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (t *turn) give() { <-t.free }
