package host

import (
	"bufio"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"github.com/wardyn/nomad-driver-wardyn/plugin/internal/wire/basepb"
)

// unknownCoreMHz stands in where the machine does not say how fast its cores are.
const unknownCoreMHz = 1000

// topology describes the cores as a client from 1.7 on does. Distances between memory nodes
// are the customary 10 at home and 20 elsewhere.
func topology(cores []Core) *basepb.ClientTopology {
	out := &basepb.ClientTopology{}
	for _, c := range cores {
		if !slices.Contains(out.NodeIds, c.NodeID) {
			out.NodeIds = append(out.NodeIds, c.NodeID)
		}
		out.Cores = append(out.Cores, &basepb.ClientTopologyCore{
			SocketId: c.SocketID, NodeId: c.NodeID, CoreId: c.ID, Disable: c.Disabled, GuessSpeed: c.MHz,
		})
	}
	n := len(out.NodeIds)
	out.Distances = &basepb.ClientTopologySLIT{Dimension: uint32(n)}
	for i := range n * n {
		distance := uint32(20)
		if i/n == i%n {
			distance = 10
		}
		out.Distances.Values = append(out.Distances.Values, distance)
	}
	return out
}

// localCores is this machine's CPUs, all on one memory node.
func localCores() []Core {
	mhz := cpuMHz("/proc/cpuinfo")
	cores := make([]Core, runtime.NumCPU())
	for i := range cores {
		cores[i] = Core{ID: uint32(i), MHz: mhz}
	}
	return cores
}

// TotalMHz is the node's usable compute: what a task's share is a fraction of.
func (n Node) TotalMHz() uint64 {
	var total uint64
	for _, c := range n.Cores {
		if !c.Disabled {
			total += c.MHz
		}
	}
	return total
}

func cpuMHz(path string) uint64 {
	f, err := os.Open(path)
	if err != nil {
		return unknownCoreMHz
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		key, value, ok := strings.Cut(lines.Text(), ":")
		if !ok || strings.TrimSpace(key) != "cpu MHz" {
			continue
		}
		if mhz, err := strconv.ParseFloat(strings.TrimSpace(value), 64); err == nil && mhz >= 1 {
			return uint64(mhz)
		}
	}
	return unknownCoreMHz
}
