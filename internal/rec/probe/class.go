package probe

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// ChildCommand is the hidden command that Class starts this program with.
const ChildCommand = "probe-child"

const (
	classProcesses = 64
	classParallel  = 8
	childWorkers   = 8
	childRounds    = 2000
)

// ClassReport is the verdict of Class.
type ClassReport struct {
	Sysname string `json:"sysname"`
	Release string `json:"release"`
	Version string `json:"version"`
	Machine string `json:"machine"`
	// BootID is drawn anew by every kernel that boots; "" where there is none.
	BootID    string `json:"boot_id,omitempty"`
	Processes int    `json:"processes"` // started
	Right     int    `json:"right"`     // ended with the right answer
	Fault     string `json:"fault,omitempty"`
}

// Class starts 64 multi-threaded processes and checks what each computes.
// A runtime that breaks programs does so here, not in a task: some let a
// single process through and fall over a few later. It exits 0 only when all
// were right.
func Class(stdout, stderr io.Writer) int {
	r := ClassReport{Processes: classProcesses}
	var u unix.Utsname
	if err := unix.Uname(&u); err == nil {
		r.Sysname, r.Release = unix.ByteSliceToString(u.Sysname[:]), unix.ByteSliceToString(u.Release[:])
		r.Version, r.Machine = unix.ByteSliceToString(u.Version[:]), unix.ByteSliceToString(u.Machine[:])
	}
	if b, err := os.ReadFile("/proc/sys/kernel/random/boot_id"); err == nil {
		r.BootID = strings.TrimSpace(string(b))
	}
	var (
		mu    sync.Mutex // guards r
		all   sync.WaitGroup
		slots = make(chan struct{}, classParallel)
	)
	for n := range classProcesses {
		slots <- struct{}{}
		all.Go(func() {
			err := askChild(n)
			<-slots
			mu.Lock()
			defer mu.Unlock()
			if err == nil {
				r.Right++
			} else if r.Fault == "" {
				r.Fault = err.Error()
			}
		})
	}
	all.Wait()
	if err := json.NewEncoder(stdout).Encode(r); err != nil {
		fmt.Fprintln(stderr, "wardyn-rec: probe:", err)
		return 1
	}
	if r.Right != r.Processes {
		return 1
	}
	return 0
}

// askChild runs one child and compares its answer with our own.
func askChild(n int) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	out, err := exec.Command(self, ChildCommand, strconv.Itoa(n)).Output()
	if err != nil {
		return fmt.Errorf("process %d: %w", n, err)
	}
	if got, want := strings.TrimSpace(string(out)), answer(n); got != want {
		return fmt.Errorf("process %d answered %q, want %q", n, got, want)
	}
	return nil
}

// Child computes one answer and prints it.
func Child(args []string, stdout io.Writer) int {
	if len(args) != 1 {
		return 2
	}
	n, err := strconv.Atoi(args[0])
	if err != nil {
		return 2
	}
	fmt.Fprintln(stdout, answer(n))
	return 0
}

// answer is a number that depends on work done by several threads that hand
// over to each other all the time.
func answer(n int) string {
	var (
		parts = make(chan uint64)
		sum   uint64
	)
	for w := range childWorkers {
		go func() {
			x := uint64(n)*2654435761 + uint64(w) + 1
			for range childRounds {
				x ^= x << 13
				x ^= x >> 7
				x ^= x << 17
				parts <- x
			}
		}()
	}
	for range childWorkers * childRounds {
		sum += <-parts
	}
	return strconv.FormatUint(sum, 16)
}
