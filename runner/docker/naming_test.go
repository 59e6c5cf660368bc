package docker

import (
	"context"
	"errors"
	"testing"
)

// D12: whoever waits for another image to get its name waits no longer than his
// context: a load may take minutes.
func TestWaitForANameEndsWithItsContext(t *testing.T) {
	r := newScripted(t, &scripted{})
	r.naming = make(chan struct{}, 1)
	r.naming <- struct{}{}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := r.nameImage(ctx, "wardyn-snap/default/x", nil, ""); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}
