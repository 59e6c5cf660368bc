package testenv

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// Daemons lists the processes of an installation that outlive a plugin, of one
// kind: "keeper" or "holder".
func Daemons(kind, instance string) []int {
	files, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	var out []int
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			continue // ended meanwhile
		}
		argv := strings.Split(string(b), "\x00")
		if len(argv) > 3 && argv[1] == kind && strings.Contains(argv[3], "/"+instance+"/") {
			pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(f)))
			out = append(out, pid)
		}
	}
	return out
}
