package plugin

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// coresOf are the cores of a list such as "0,3,5-7", in order. What is no list
// has none.
func coresOf(list string) []int {
	var out []int
	for part := range strings.SplitSeq(list, ",") {
		lo, hi, isRange := strings.Cut(strings.TrimSpace(part), "-")
		a, err := strconv.Atoi(lo)
		if err != nil {
			continue
		}
		b := a
		if isRange {
			if b, err = strconv.Atoi(hi); err != nil {
				continue
			}
		}
		for ; a <= b; a++ {
			out = append(out, a)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// coreCount counts the cores of a list.
func coreCount(list string) int { return len(coresOf(list)) }

// commonCores are the cores that two lists share, as the kernel writes them: "0-2,4".
func commonCores(list, other string) string {
	of := coresOf(other)
	common := slices.DeleteFunc(coresOf(list), func(c int) bool { return !slices.Contains(of, c) })
	var parts []string
	for i := 0; i < len(common); {
		j := i
		for j+1 < len(common) && common[j+1] == common[j]+1 {
			j++
		}
		part := strconv.Itoa(common[i])
		if j > i {
			part = fmt.Sprintf("%d-%d", common[i], common[j])
		}
		parts = append(parts, part)
		i = j + 1
	}
	return strings.Join(parts, ",")
}
