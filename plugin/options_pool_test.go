package plugin

import (
	"strings"
	"testing"
)

// TestK17PoolSize: what an operator may keep warm, both edges.
func TestK17PoolSize(t *testing.T) {
	pool := func(size any) map[string]any { return map[string]any{"pool": map[string]any{"size": size}} }
	with := func(block map[string]any, subnets string) map[string]any {
		block["subnet_pool"] = subnets
		return block
	}
	for _, c := range []struct {
		block map[string]any
		want  int
	}{
		{map[string]any{}, 0}, {map[string]any{"pool": map[string]any{}}, 0}, {pool(0), 0}, {pool(64), 64},
		{with(pool(4), "10.9.0.0/26"), 4}, {with(pool(0), "10.9.0.0/29"), 0},
	} {
		if got := hostOf(t, c.block).PoolSize; got != c.want {
			t.Errorf("%v: %d, want %d", c.block, got, c.want)
		}
	}
	for _, block := range []map[string]any{pool(-1), pool(65), with(pool(5), "10.9.0.0/26"), with(pool(1), "10.9.0.0/29")} {
		_, err := ParseHostConfig(block)
		if err == nil || !strings.Contains(err.Error(), "pool.size") {
			t.Errorf("%v: %v", block, err)
		}
	}
}
