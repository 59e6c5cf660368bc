package docker

import (
	"slices"
	"testing"
	"time"

	"github.com/wardyn/nomad-driver-wardyn/runner"
)

func TestD11LeastRecentlyUsedGoFirst(t *testing.T) {
	now := time.Now()
	image := func(ref string, hours int, bytes int64, users ...string) runner.Image {
		return runner.Image{Ref: ref, Used: now.Add(-time.Duration(hours) * time.Hour), Bytes: bytes, Users: users}
	}
	all := []runner.Image{image("new", 1, 10), image("old", 30, 10), image("older", 40, 10), image("used", 50, 10, "somebody")}
	for _, c := range []struct {
		most int64
		age  time.Duration
		want []string
	}{
		{0, 0, nil},
		{40, 0, nil},
		{39, 0, []string{"older"}},
		{20, 0, []string{"older", "old"}},
		{1, 0, []string{"older", "old", "new"}},
		{0, 35 * time.Hour, []string{"older"}},
		{0, 100 * time.Hour, nil},
		{25, 35 * time.Hour, []string{"older", "old"}},
	} {
		if got := refs(expendable(all, c.most, c.age, now)); !slices.Equal(got, c.want) {
			t.Errorf("at most %d, %v: %v, want %v", c.most, c.age, got, c.want)
		}
	}
}

func refs(images []runner.Image) (out []string) {
	for _, i := range images {
		out = append(out, i.Ref)
	}
	return out
}

// An image that a start has found is not taken from under it, however far over
// the limits all of them are.
func TestD11FoundImagesStay(t *testing.T) {
	now := time.Now()
	for ago, want := range map[time.Duration]int{0: 0, justUsed - time.Second: 0, justUsed: 1, justUsed + time.Second: 1} {
		all := []runner.Image{{Ref: "i", Used: now.Add(-ago), Bytes: 10}}
		if got := expendable(all, 1, time.Nanosecond, now); len(got) != want {
			t.Errorf("used %v ago: %v", ago, refs(got))
		}
	}
}
