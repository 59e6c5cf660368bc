package docker

import (
	"fmt"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	dockerapi "github.com/docker/docker/api"
)

// TestBugJ9APIVersionIsNegotiated: an engine is spoken to in its own version when
// it is older than the client, in the client's when it is newer, and a version
// in the environment of the agent changes nothing.
func TestBugJ9APIVersionIsNegotiated(t *testing.T) {
	t.Setenv("DOCKER_API_VERSION", "1.30")
	own := dockerapi.DefaultVersion
	for engine, want := range map[string]string{"1.41": "1.41", own: own, "1.99": own} {
		t.Run(engine, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "engine.sock")
			l, err := net.Listen("unix", path)
			if err != nil {
				t.Fatal(err)
			}
			asked := make(chan string, 1)
			srv := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
				w.Header().Set("API-Version", engine)
				if !strings.HasSuffix(req.URL.Path, "/_ping") {
					asked <- req.URL.Path
					fmt.Fprint(w, "{}")
				}
			})}
			go srv.Serve(l)
			defer srv.Close()
			c, _, err := connect("unix://" + path)
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			if _, err := c.Info(t.Context()); err != nil {
				t.Fatal(err)
			}
			if got := <-asked; got != "/v"+want+"/info" {
				t.Errorf("an engine of API %s was asked %s", engine, got)
			}
		})
	}
}
