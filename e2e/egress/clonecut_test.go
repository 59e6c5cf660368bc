package egress

import (
	"crypto/rand"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/wardyn/nomad-driver-wardyn/internal/testenv"
)

// brokenOff passes the answers of a git server on, and stops in the middle of a
// pack for as long as the test says.
type brokenOff struct {
	http.Handler
	after int // bytes of an answer

	once     sync.Once
	reached  chan struct{} // closed when that much of a pack has been sent
	goOn     chan struct{} // closed to end what was begun, by cutting the connection
	repaired chan struct{} // closed when packs come whole again
}

func newBrokenOff(h http.Handler) *brokenOff {
	return &brokenOff{Handler: h, after: 1 << 20, reached: make(chan struct{}), goOn: make(chan struct{}), repaired: make(chan struct{})}
}

func (b *brokenOff) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	select {
	case <-b.repaired:
	default:
		if strings.HasSuffix(r.URL.Path, "/git-upload-pack") {
			w = &cutWriter{ResponseWriter: w, from: b}
		}
	}
	b.Handler.ServeHTTP(w, r)
}

type cutWriter struct {
	http.ResponseWriter
	from *brokenOff
	sent int
}

func (c *cutWriter) Write(p []byte) (int, error) {
	n, err := c.ResponseWriter.Write(p)
	if c.sent += n; c.sent < c.from.after {
		return n, err
	}
	c.ResponseWriter.(http.Flusher).Flush()
	c.from.once.Do(func() { close(c.from.reached) })
	<-c.from.goOn
	panic(http.ErrAbortHandler)
}

// TestCloneCutOff: a clone that breaks off in the middle of a pack, whatever the
// reason, ends the task before its command. Nothing of it is taken for a clone,
// what is in the workspace stays, and the task's next start clones.
func TestCloneCutOff(t *testing.T) {
	token := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(token, []byte(gitToken), 0o600); err != nil {
		t.Fatal(err)
	}
	r := newRigWith(t, gitPrograms(t), map[string]any{"git_grant": []any{map[string]any{"web": []any{map[string]any{
		"host": "git.example.internal", "repos": []any{"acme/*"}, "token_file": token, "namespaces": []any{"*"},
	}}}}})
	s := newGitServer(t, gitToken)
	noise := make([]byte, 4<<20) // a pack that is no smaller
	rand.Read(noise)
	s.add(t, "acme/big.git", "noise", noise)
	cut := &switched{}
	r.up.mux.Handle("/acme/", cut)
	each(t, func(t *testing.T, class string) {
		for name, c := range map[string]struct {
			code int
			how  func(*testing.T, *work, *brokenOff)
		}{
			"by the server": {121, func(_ *testing.T, _ *work, b *brokenOff) { close(b.goOn) }},
			"with its sidecar": {121, func(t *testing.T, w *work, _ *brokenOff) {
				w.killContainer(t, "proxy")
			}},
			"with its sandbox": {137, func(t *testing.T, w *work, _ *brokenOff) {
				w.killContainer(t, "agent")
			}},
			"by a full disk": {code: 121},
			"by a stop": {143, func(t *testing.T, w *work, _ *brokenOff) {
				if err := r.StopTask(deadline(t), w.ID(), limit, "SIGTERM"); err != nil {
					t.Error(err)
				}
			}},
		} {
			if class == "CC2" && c.code == 121 {
				continue // what is outside of the sandbox is the same
			}
			t.Run(name, func(t *testing.T) { r.cloneCut(t, class, newBrokenOff(s), cut, c.code, c.how) })
		}
	})
}

// switched is a handler that is another one for each test.
type switched struct {
	mu  sync.Mutex
	now http.Handler
}

func (s *switched) use(h http.Handler) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.now = h
}

func (s *switched) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	h := s.now
	s.mu.Unlock()
	h.ServeHTTP(w, r)
}

func (w *work) killContainer(t *testing.T, component string) {
	t.Helper()
	if err := w.rig.engine.ContainerKill(deadline(t), w.containers(t)[component], "KILL"); err != nil {
		t.Error(err)
	}
}

// cloneCut starts a task whose clone is cut in the way given, nil being a disk
// that is smaller than the repository, and starts it again.
func (r *rig) cloneCut(t *testing.T, class string, b *brokenOff, served *switched, code int, cut func(*testing.T, *work, *brokenOff)) {
	served.use(b)
	w := r.prepare(t, class, map[string]any{
		"git":     []any{map[string]any{"web": []any{map[string]any{"repo": "acme/big", "grant": "web"}}}},
		"repo":    []any{map[string]any{"owner": "acme", "name": "big", "base_branch": "main"}},
		"idle":    false,
		"command": "/bin/sh", "args": []any{"-c", "echo the command ran; wc -c < /workspace/big/noise"},
	})
	folder := filepath.Join(w.Dir().Local, "workspace")
	sizeDisk := func(string) {}
	if cut == nil {
		sizeDisk = smallDisk(t, folder)
		close(b.repaired)
	}
	checkKept := testenv.Precious(t, filepath.Join(folder, "kept"))
	if err := w.Start(deadline(t)); err != nil {
		t.Fatal(err)
	}
	if cut != nil {
		select {
		case <-b.reached:
		case <-deadline(t).Done():
			t.Fatalf("the clone did not get to the middle of its pack: %s", w.out.String())
		}
		cut(t, w, b)
	}
	exit, err := w.Wait(deadline(t))
	if err != nil || exit.ExitCode != code || strings.Contains(w.out.String(), "the command ran") {
		t.Errorf("%+v, %v, want code %d: %s", exit, err, code, w.out.String())
	}
	if code == 121 {
		eventually(t, "the event", func() bool { return strings.Contains(r.told(w.ID()), "(exit code 121)") })
	}
	if _, err := os.Lstat(filepath.Join(folder, "big")); !os.IsNotExist(err) {
		t.Errorf("half a clone is left under the name of a whole one: %v", err)
	}
	checkKept()

	sizeDisk("64m")
	for _, c := range []chan struct{}{b.repaired, b.goOn} {
		if !isClosed(c) {
			close(c)
		}
	}
	if err := r.DestroyTask(deadline(t), w.ID(), true); err != nil {
		t.Fatal(err)
	}
	if err := w.Start(deadline(t)); err != nil {
		t.Fatal(err)
	}
	// What the clone prints is on the other stream, which comes in its own time.
	if exit, err := w.Wait(deadline(t)); err != nil || exit.ExitCode != 0 || !strings.Contains(w.out.String(), "the command ran\n") || !strings.Contains(w.out.String(), "4194304\n") {
		t.Errorf("the next start: %+v, %v: %s", exit, err, w.out.String())
	}
	if left, err := filepath.Glob(filepath.Join(folder, "*.cloning")); err != nil || len(left) > 0 {
		t.Errorf("left of the first: %q, %v", left, err)
	}
	checkKept()
}

// smallDisk makes a folder a disk of its own that the repository does not fit on;
// size gives it another size.
func smallDisk(t *testing.T, folder string) (size func(string)) {
	t.Helper()
	mount := func(flags uintptr, size string) {
		t.Helper()
		if err := syscall.Mount("tmpfs", folder, "tmpfs", flags, "size="+size); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.MkdirAll(folder, 0o777); err != nil {
		t.Fatal(err)
	}
	mount(0, "2m")
	t.Cleanup(func() { syscall.Unmount(folder, syscall.MNT_DETACH) })
	return func(size string) { mount(syscall.MS_REMOUNT, size) }
}

func isClosed(c chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
