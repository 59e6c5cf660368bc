package rec

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// B27, R35: a task that has used up its processes takes nothing of ours with
// it: wardyn-rec needs no further thread once the command is up, on however
// many CPUs.
func TestB27NoThreadIsNeededLater(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can start a program as another user, whom the limit holds")
	}
	if err := os.Chmod(filepath.Dir(recPath), 0o755); err != nil {
		t.Fatal(err)
	}
	const most = 4 << 20
	script := fmt.Sprintf("prlimit --pid $PPID --nproc=0 && trap '' USR1 || exit 9; head -c %d /dev/zero >&2 & "+
		"for i in 1 2 3 4 5 6 7 8 9; do kill -USR1 $PPID; done; head -c %d /dev/zero; wait; exit 7", most, most)
	for _, args := range [][]string{{"exec", "ID"}, {"init"}} {
		for try := range 6 {
			n, code := runSlowly(t, uint32(70000+try), append(args, "--", "sh", "-c", script)...)
			if code != 7 || n != 2*most {
				t.Errorf("%s: code %d, %d bytes; want 7 and %d", args[0], code, n, 2*most)
			}
		}
	}
}

// runSlowly runs wardyn-rec as a user and reads slowly what it prints.
func runSlowly(t *testing.T, uid uint32, args ...string) (printed int64, exit int) {
	t.Helper()
	cmd := wardynRec(t, args...)
	cmd.Env = append(os.Environ(), "GOMAXPROCS=64")
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid}}
	out, err1 := cmd.StdoutPipe()
	errs, err2 := cmd.StderrPipe()
	if err1 != nil || err2 != nil {
		t.Fatal(err1, err2)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	n := make(chan int64)
	for _, r := range []io.Reader{out, errs} {
		go func() {
			total := int64(0)
			for buf := make([]byte, 64<<10); ; time.Sleep(200 * time.Microsecond) {
				k, err := r.Read(buf)
				total += int64(k)
				if err != nil {
					n <- total
					return
				}
			}
		}()
	}
	printed = <-n + <-n
	return printed, code(t, cmd.Wait())
}
