package nomad

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/wardyn/nomad-driver-wardyn/internal/testenv"
)

// cniPaths are where CNI's plugins are: by Nomad's default and by Debian's.
var cniPaths = []string{"/opt/cni/bin", "/usr/lib/cni"}

func cniPath() string {
	for _, p := range cniPaths {
		if _, err := os.Stat(filepath.Join(p, "bridge")); err == nil {
			return p
		}
	}
	return ""
}

// neighbour configures what groups with a docker task need: Nomad's own driver
// beside ours, whose pause container comes from a local image, and CNI. Three
// minutes after its task that driver would remove the image, which is all tests'.
func neighbour(pause string) string {
	text := fmt.Sprintf(`
plugin "docker" {
  config {
    infra_image = %q
    allow_privileged = false
    gc {
      image = false
    }
  }
}
`, pause)
	if p := cniPath(); p != "" {
		text += fmt.Sprintf("client {\n  cni_path = %q\n}\n", p)
	}
	return text
}

// K18: a page is had through the group's port, in the host's network and in a
// bridge with a docker task, and Nomad's own check of the service passes.
func (c *cluster) ports(t *testing.T) {
	for _, rt := range testenv.Runtimes(t) {
		class := map[string]string{"runc": "CC1", "runsc": "CC2"}[rt]
		t.Run("host/"+rt, func(t *testing.T) {
			c.run(t, "ports.nomad.hcl", "class="+class)
			c.previewed(t, "ports", nil)
		})
	}
	t.Run("bridge with a docker task", func(t *testing.T) {
		if cniPath() == "" {
			t.Skip("no CNI plugins (Debian: containernetworking-plugins)")
		}
		c.CLI(t, "job", "run", "-detach", "-var", "image="+c.image, filepath.Join("testdata", "group.nomad.hcl"))
		c.previewed(t, "group", func(a alloc) {
			c.Eventually(t, 30*time.Second, "the docker task reaches ours on its loopback", func() bool {
				out, _ := c.Command(t, "alloc", "logs", "-task", "neighbour", a.ID).Output()
				return strings.Contains(string(out), "served from port 8080")
			})
		})
	})
}

// previewed waits until a job's page is served and its service checked, looks
// further, and stops the job.
func (c *cluster) previewed(t *testing.T, job string, further func(alloc)) {
	t.Helper()
	defer c.CLI(t, "job", "stop", "-purge", job)
	a := c.until(t, job, "running", "failed")
	url := "http://" + c.address(t, a, "http") + "/"
	c.Eventually(t, 60*time.Second, "the page is served", func() bool { return page(url) == "served from port 8080\n" })
	c.Eventually(t, 60*time.Second, "the service's check passes", func() bool {
		out, _ := c.Command(t, "alloc", "checks", "-json", a.ID).Output()
		return strings.Contains(string(out), `"Status": "success"`)
	})
	if further != nil {
		further(a)
	}
}

// address is where a port of an allocation is on the node.
func (c *cluster) address(t *testing.T, a alloc, label string) string {
	t.Helper()
	var out struct {
		AllocatedResources struct {
			Shared struct {
				Ports []struct {
					Label, HostIP string
					Value         int
				}
			}
		}
	}
	if err := json.Unmarshal([]byte(c.CLI(t, "alloc", "status", "-json", a.ID)), &out); err != nil {
		t.Fatal(err)
	}
	for _, p := range out.AllocatedResources.Shared.Ports {
		if p.Label == label {
			return fmt.Sprintf("%s:%d", p.HostIP, p.Value)
		}
	}
	t.Fatalf("allocation %s has no port %q", a.ID, label)
	return ""
}

// page is what a URL answers, "" for nothing.
func page(url string) string {
	hc := http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := hc.Get(url)
	if err != nil {
		return ""
	}
	defer resp.Body.Close()
	b, _ := io.ReadAll(resp.Body)
	return string(b)
}
