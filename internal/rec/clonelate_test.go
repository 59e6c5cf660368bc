package rec

import (
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestD11CloneThatTakesTooLong: a clone from a server that answers nothing is
// ended at the stage's limit, with git and the helpers it has started, and leaves
// nothing that passes for one.
func TestD11CloneThatTakesTooLong(t *testing.T) {
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("git is not installed")
	}
	asked := make(chan struct{}, 10)
	origin := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		asked <- struct{}{}
		<-r.Context().Done()
	}))
	t.Cleanup(origin.Close)
	work := t.TempDir()
	late := stage{Name: "clone", Code: 121, Repos: []clone{{URL: origin.URL + "/team/web.git", Dir: filepath.Join(work, "web")}}}
	for late.TimeoutMillis = 500; ; late.TimeoutMillis *= 2 { // a busy machine may not have come as far as asking
		out, err := asPID1(t, "init", "-stages", stagesFile(t, nil, late), "--", "echo", "agent").CombinedOutput()
		if n := code(t, err); n != 121 || !strings.Contains(string(out), "[clone] failed: it took longer than") || strings.Contains(string(out), "agent") {
			t.Fatalf("exit %d\n%s", n, out)
		}
		if left, err := os.ReadDir(work); err != nil || len(left) > 0 {
			t.Fatalf("left: %v, %v", left, err)
		}
		if len(asked) > 0 {
			return
		}
	}
}
