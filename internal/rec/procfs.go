package rec

import (
	"bytes"
	"fmt"
	"os"
	"path"
	"strconv"
	"strings"
)

// process is one row of the process table.
type process struct {
	pid, parent, group int
	state              byte // as in /proc/PID/stat
}

// processes reads the whole table of this pid namespace.
func processes() ([]process, error) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, err
	}
	var table []process
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		if p, err := readProcess(pid); err == nil { // else it has just ended
			table = append(table, p)
		}
	}
	return table, nil
}

func readProcess(pid int) (process, error) {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return process{}, err
	}
	return parseStat(pid, b)
}

// parseStat reads a stat line. The command's name, in parentheses, may itself
// hold parentheses and blanks.
func parseStat(pid int, line []byte) (process, error) {
	p := process{pid: pid}
	_, err := fmt.Sscanf(string(line[bytes.LastIndexByte(line, ')')+1:]), " %c %d %d", &p.state, &p.parent, &p.group)
	return p, err
}

// execsOf picks the wrappers of the exec of that id by the command line they show.
func execsOf(table []process, id string) []int {
	var pids []int
	for _, p := range table {
		b, err := os.ReadFile("/proc/" + strconv.Itoa(p.pid) + "/cmdline")
		if err == nil && isExecOf(strings.Split(strings.TrimSuffix(string(b), "\x00"), "\x00"), id) {
			pids = append(pids, p.pid)
		}
	}
	return pids
}

func isExecOf(argv []string, id string) bool {
	if len(argv) < 2 || path.Base(argv[0]) != "wardyn-rec" || argv[1] != "exec" {
		return false
	}
	a, err := parseExec(argv[2:])
	return err == nil && a.id == id
}
