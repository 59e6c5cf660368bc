package plugin

import (
	"fmt"

	"github.com/wardyn/nomad-driver-wardyn/plugin/internal/wire/hclspec"
)

// PoolConfig is the part of the plugin's config that is about warm slots.
type PoolConfig struct {
	Pool *PoolBlock `codec:"pool"`
}

// PoolBlock is the plugin's pool block.
type PoolBlock struct {
	Size int64 `codec:"size"`
}

// addPoolConfig adds the schema of PoolConfig.
func addPoolConfig(s map[string]*hclspec.Spec) {
	s["pool"] = hclspec.Block("pool", hclspec.Object(map[string]*hclspec.Spec{
		"size": hclspec.Attr("size", hclspec.Number),
	}))
}

// mostWarm bounds the warm slots: each takes memory and two containers while
// nobody uses it.
const mostWarm = 64

// poolSize reads how many slots are kept warm. A warm slot has a network of the
// subnet pool, and at least half of those stay for tasks that cannot use one.
func poolSize(f *faults, c PoolConfig, h HostConfig) int {
	if c.Pool == nil {
		return 0
	}
	subnets, _ := h.Pools()
	most := int64(min(mostWarm, 1<<(29-subnets.Bits())/2))
	if c.Pool.Size < 0 || c.Pool.Size > most {
		f.add("pool.size", c.Pool.Size, fmt.Sprintf("want 0 to %d, half of subnet_pool's networks and %d at most", most, mostWarm), "remove the block for none")
		return 0
	}
	return int(c.Pool.Size)
}
