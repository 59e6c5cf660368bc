package probe

import (
	"net"
	"path/filepath"
	"strings"
	"testing"

	"github.com/wardyn/nomad-driver-wardyn/internal/testenv"
)

// A socket counts as reached when somebody behind it says something.
func TestUnixTarget(t *testing.T) {
	dir := t.TempDir()
	answers, err := net.Listen("unix", filepath.Join(dir, "answers"))
	if err != nil {
		t.Fatal(err)
	}
	defer answers.Close()
	go func() {
		for {
			c, err := answers.Accept()
			if err != nil {
				return
			}
			c.Write([]byte("hello\n"))
			c.Close()
		}
	}()
	for path, reached := range map[string]bool{"answers": true, "nobody": false} {
		tg, err := parseTarget("unix:" + filepath.Join(dir, path))
		if err != nil {
			t.Fatal(err)
		}
		if r := tg.try(patience{timeout: testenv.Patience}); r.Reached != reached {
			t.Errorf("%s: %+v", path, r)
		}
	}
	if _, err := parseTarget("unix:relative"); err == nil || !strings.Contains(err.Error(), "absolute") {
		t.Errorf("a relative path: %v", err)
	}
}
