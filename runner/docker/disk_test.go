package docker

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"testing"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/mount"
	"github.com/docker/docker/api/types/storage"
	"golang.org/x/sys/unix"
)

// removedFile makes a file of so many MiB in this package's folder, which is on
// a disk, and takes its name away.
func removedFile(t *testing.T, size int) *os.File {
	t.Helper()
	f, err := os.CreateTemp(".", ".removed-*")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	_, err = f.Write(make([]byte, size<<20))
	if err := errors.Join(err, f.Sync(), os.Remove(f.Name())); err != nil {
		t.Fatal(err)
	}
	return f
}

// K37: a file that its maker has removed takes room for as long as somebody has
// it open or mapped, in whatever thread, and counts once.
func TestK37RemovedFilesCount(t *testing.T) {
	measure := func() int64 {
		n, err := heldBy(t.Context(), []int{os.Getpid(), os.Getpid(), 1 << 30})
		if err != nil {
			t.Fatal(err)
		}
		return n >> 20
	}
	before := measure()
	f := removedFile(t, 3)
	if twice, err := unix.Dup(int(f.Fd())); err != nil {
		t.Fatal(err)
	} else {
		defer unix.Close(twice)
	}
	if n := measure() - before; n != 3 {
		t.Errorf("open: %d MiB more, want 3", n)
	}
	m := removedFile(t, 4)
	at, err := unix.Mmap(int(m.Fd()), 0, 4<<20, unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Munmap(at)
	m.Close()
	if n := measure() - before; n != 7 {
		t.Errorf("open and mapped: %d MiB more, want 7", n)
	}
	memory, err := unix.MemfdCreate("x", 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(memory)
	if err := unix.Fallocate(memory, 0, 0, 5<<20); err != nil {
		t.Fatal(err)
	}
	if n := measure() - before; n != 7 {
		t.Errorf("with memory: %d MiB more, want 7", n)
	}
	var thread int64
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // for good: its table of files is its own now
		if err := unix.Unshare(unix.CLONE_FILES); err != nil {
			t.Error(err)
			return
		}
		f, err := os.CreateTemp(".", ".removed-*")
		if err != nil {
			t.Error(err)
			return
		}
		defer f.Close() // here: anywhere else its number is another file's
		_, err = f.Write(make([]byte, 6<<20))
		if err := errors.Join(err, f.Sync(), os.Remove(f.Name())); err != nil {
			t.Error(err)
		}
		thread = measure() - before
	}()
	<-done
	if thread != 13 {
		t.Errorf("with a thread of its own files: %d MiB more, want 13", thread)
	}
}

// K37: what is mapped at a low address counts, whose name has zeros in front in
// one list of the kernel's and none in the other.
func TestK37RemovedFilesAtLowAddresses(t *testing.T) {
	before, err := heldBy(t.Context(), []int{os.Getpid()})
	if err != nil {
		t.Fatal(err)
	}
	f := removedFile(t, 3)
	const low, size = 0x1_0000, 3 << 20 // below where programs are put
	at, _, errno := unix.Syscall6(unix.SYS_MMAP, low, size, unix.PROT_READ, unix.MAP_SHARED|unix.MAP_FIXED_NOREPLACE, f.Fd(), 0)
	if errno != 0 {
		t.Skipf("nothing can be mapped at %#x here: %v", low, errno)
	}
	defer unix.Syscall(unix.SYS_MUNMAP, at, size, 0)
	f.Close()
	if n, err := heldBy(t.Context(), []int{os.Getpid()}); err != nil || n-before != size {
		t.Errorf("%d bytes more, %v; want %d", n-before, err, size)
	}
}

// leaderGone is the environment variable that makes this binary the process of
// TestK37RemovedFilesWithoutFirstThread.
const leaderGone = "WARDYN_TEST_LEADER_GONE"

func init() {
	if os.Getenv(leaderGone) == "" {
		return
	}
	f, err := os.CreateTemp(".", ".removed-*")
	if err == nil {
		_, err = f.Write(make([]byte, 3<<20))
		err = errors.Join(err, f.Sync(), os.Remove(f.Name()))
	}
	if err == nil {
		_, err = unix.Mmap(int(f.Fd()), 0, 3<<20, unix.PROT_READ, unix.MAP_SHARED)
	}
	f.Close()
	go func() {
		status := "/proc/self/stat"
		for b := []byte{}; !bytes.Contains(b, []byte(") Z ")); runtime.Gosched() {
			b, _ = os.ReadFile(status)
		}
		fmt.Println("ready", err)
		io.Copy(io.Discard, os.Stdin)
		os.Exit(0)
	}()
	unix.Syscall(unix.SYS_EXIT, 0, 0, 0) // this thread, the first, alone
}

// K37: a process whose first thread has ended goes on, and holds what it has mapped.
func TestK37RemovedFilesWithoutFirstThread(t *testing.T) {
	c := exec.Command(os.Args[0])
	c.Env = append(os.Environ(), leaderGone+"=1")
	in, err := c.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	defer c.Wait()
	defer in.Close()
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "ready <nil>\n" {
		t.Fatalf("%q, %v", line, err)
	}
	if n, err := heldBy(t.Context(), []int{c.Process.Pid}); n != 3<<20 || err != nil {
		t.Errorf("%d bytes, %v", n, err)
	}
}

// K37: a measurement that has no time left says so.
func TestK37RemovedFilesInTime(t *testing.T) {
	over, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := heldBy(over, []int{os.Getpid()}); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	if n, err := heldOf(t.Context(), 1<<30); n != 0 || err != nil {
		t.Errorf("a process that has ended: %d, %v", n, err)
	}
}

// K37: what an image has the engine put elsewhere counts, what a job keeps does
// not; and of the sandbox's own files holes do not, and names do.
func TestK37WhatIsMeasured(t *testing.T) {
	upper := t.TempDir()
	sparse := filepath.Join(upper, "sparse")
	if err := os.WriteFile(sparse, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(sparse, 1<<40); err != nil {
		t.Fatal(err)
	}
	c := container.InspectResponse{
		ContainerJSONBase: &container.ContainerJSONBase{
			GraphDriver: storage.DriverData{Name: "overlay2", Data: map[string]string{"UpperDir": upper, "LowerDir": "/nowhere"}},
			HostConfig:  &container.HostConfig{Mounts: []mount.Mount{{Type: mount.TypeVolume, Source: "kept", Target: "/kept"}}},
		},
		Mounts: []container.MountPoint{
			{Type: mount.TypeVolume, Name: "kept", Source: "/volumes/kept", Destination: "/kept"},
			{Type: mount.TypeVolume, Name: "0123", Source: "/volumes/0123", Destination: "/data"},
			{Type: mount.TypeBind, Source: "/srv", Destination: "/srv"},
		},
	}
	if got := imageVolumes(c); !slices.Equal(got, []string{"/volumes/0123"}) {
		t.Errorf("measured %q", got)
	}
	r := newScripted(t, &scripted{})
	if n, err := r.written(t.Context(), c); err != nil || n == 0 || n > mib {
		t.Errorf("%d bytes written, %v", n, err)
	}
}
