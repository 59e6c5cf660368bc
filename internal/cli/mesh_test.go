package cli

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// meshJob has a connect block of each kind.
const meshJob = `job "j" {
  group "g" {
    network {
      mode = "bridge"
      port "api" {}
    }
    service {
      name = "api"
      port = "api"
      connect {
        sidecar_service {
          proxy {
            upstreams {
              destination_name = "the-db"
              local_bind_port  = 5432
            }
            upstreams {
              destination_name = "cache"
              local_bind_port  = 6379
            }
            transparent_proxy {}
          }
        }
      }
    }
    service {
      name = "admin"
      port = 9000
      connect {
        sidecar_service {}
        sidecar_task {
          driver = "docker"
        }
      }
    }
    service {
      name = "own"
      connect {
        native = true
      }
    }
    task "t" {
      driver = "wardyn"
      config {
        image = "a"
        ports = ["api"]
      }
    }
  }
  group "others" {
    service {
      name = "x"
      connect {
        native = true
      }
    }
    service {
      name = "y"
      connect {
        sidecar_service {}
        sidecar_task {
          driver = "wardyn"
          confg {
            image = "a"
          }
        }
      }
    }
    task "t" {
      driver = "docker"
      config {}
    }
  }
}
`

// groupNetworkJob has groups whose network does not do what it does for others.
const groupNetworkJob = `job "j" {
  group "named" {
    network {
      hostname = "web"
    }
    task "t" {
      driver = "wardyn"
      config {
        image = "a"
      }
    }
    task "other" {
      driver = "docker"
      config {}
    }
  }
  group "bridged" {
    network {
      mode = "bridge"
      port "http" {}
      dns {
        servers = ["192.0.2.53"]
      }
    }
    task "closed" {
      driver = "wardyn"
      config {
        image = "a"
      }
    }
    task "open" {
      driver = "wardyn"
      config {
        image = "a"
        ports = ["http"]
      }
    }
  }
  group "others" {
    network {
      hostname = "web"
    }
    task "t" {
      driver = "docker"
      config {}
    }
  }
}
`

// TestValidateKnowsTheGroupsNetwork (K18): what Nomad's client refuses without
// an event is a fault, and what a docker task has of it without asking is told.
func TestValidateKnowsTheGroupsNetwork(t *testing.T) {
	path := filepath.Join(t.TempDir(), "job.nomad.hcl")
	if err := os.WriteFile(path, []byte(groupNetworkJob), 0o600); err != nil {
		t.Fatal(err)
	}
	code, stdout, _ := checkCall(t, nil, "validate", "-offline", path)
	for want, n := range map[string]int{
		`task "t": network.hostname = "web": Nomad starts no group with it that has a task of this driver; write hostname in the config`: 1,
		`None of the group's ports leads to the task`:        1,
		`task "closed": None of the group's ports`:           1,
		`The dns block of the group's network has no effect`: 2,
		`network.hostname`: 1,
	} {
		if got := strings.Count(stdout, want); got != n {
			t.Errorf("%q is there %d times, want %d:\n%s", want, got, n, stdout)
		}
	}
	if code != exitFailed {
		t.Errorf("exit %d", code)
	}
}

// TestValidateKnowsTheMesh (K18): upstreams are refused before placement as a
// start refuses them, and the rest of a connect block is named with what it
// comes to.
func TestValidateKnowsTheMesh(t *testing.T) {
	path := filepath.Join(t.TempDir(), "job.nomad.hcl")
	if err := os.WriteFile(path, []byte(meshJob), 0o600); err != nil {
		t.Fatal(err)
	}
	code, stdout, _ := checkCall(t, nil, "validate", "-offline", path)
	got := strings.Split(strings.ReplaceAll(strings.TrimSpace(stdout), path, "job"), "\n")
	for _, want := range []string{
		`job:13: task "t": connect = "the_db": upstreams of the service mesh listen on the group's loopback, which a sandbox does not see;`,
		`job:17: task "t": connect = "cache": `,
		`note: job:11: service "api": sidecar_service: the proxy is a task of Nomad's own; what it lets in reaches task "t" through port "api"`,
		`note: job:11: service "api": transparent_proxy catches nothing`,
		`note: job:30: service "admin": sidecar_service: the proxy finds nobody on port "9000"`,
		`note: job:38: service "own": connect: native: `,
		`job:62: sidecar_task.driver = "wardyn": a proxy of the service mesh serves in the group's network`,
		`job:63: group "others": service: connect: sidecar_task: there is no "confg" here; did you mean "config"?`,
	} {
		if !slices.ContainsFunc(got, func(line string) bool { return strings.HasPrefix(line, want) }) {
			t.Errorf("%q is not in\n%s", want, strings.Join(got, "\n"))
		}
	}
	if code != exitFailed || strings.Contains(stdout, `service "x"`) {
		t.Errorf("exit %d\n%s", code, stdout)
	}
}
