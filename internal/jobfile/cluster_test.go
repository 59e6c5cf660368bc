package jobfile_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/wardyn/nomad-driver-wardyn/internal/jobfile"
)

// inTask is a job file with a task; body is its lines from line 4 on.
func inTask(body string) []byte {
	return []byte("job \"j\" {\n  group \"g\" {\n    task \"t\" {\n" + body + "\n    }\n  }\n}\n")
}

// TestClusterReadsWhatOneNodeCannot: a file that a cluster will run is read
// whole, tasks of other drivers, volumes and all; what is wrong in it does not
// hide the rest.
func TestClusterReadsWhatOneNodeCannot(t *testing.T) {
	src := []byte(`job "j" {
  type = "batch"
  parameterized { meta_required = ["m"] }
  group "g" {
    count = 3
    volume "data" {
      type   = "host"
      source = "data"
    }
    task "other" {
      driver = "docker"
      config {
        image = "x"
      }
    }
    task "t" {
      driver = "wardyn"
      config {
        image = bcrypt("x")
      }
      artifact {
        source = "https://a.example"
      }
      volume_mount {
        volume      = "data"
        destination = "/data"
        read_only   = true
      }
      resources {
        memory = 0
        device "nvidia/gpu" {}
      }
    }
  }
}
`)
	if job, err := jobfile.Parse("f", src, jobfile.Options{}); job != nil || err == nil {
		t.Errorf("for one node: %v, %v", job, err)
	}
	job, err := jobfile.Parse("f", src, jobfile.Options{Cluster: true})
	var bad *jobfile.Error
	if !errors.As(err, &bad) || len(bad.Problems) != 1 || bad.Problems[0].Pos.Line != 30 {
		t.Fatalf("%v", err)
	}
	if job == nil || !job.Dispatched || len(job.Ignored) != 0 || len(job.Groups) != 1 || len(job.Groups[0].Tasks) != 2 {
		t.Fatalf("%+v", job)
	}
	task := job.Groups[0].Tasks[1]
	if !slices.Equal(task.Unread, []string{"image"}) || len(task.Mounts) != 1 || task.Mounts[0].Destination != "/data" || !task.Mounts[0].ReadOnly ||
		!slices.Equal(task.Places.Labels("resources.device"), []string{"nvidia/gpu"}) {
		t.Errorf("%+v", task)
	}
}

func TestPlaces(t *testing.T) {
	job, err := jobfile.Parse("f", inTask(`driver = "wardyn"
user = "x"
config {
  args = [
    "a",
    upper("b"),
  ]
  labels = {
    team = "web"
  }
  egress {
    allow = ["x"]
  }
  ulimit { nofile = "1" }
  mount {
    type   = "bind"
    target = "/a"
  }
  mount {
    type   = "bind"
    target = "/b"
  }
  devices = [
    { host_path = "/dev/a" },
    { host_path = "/dev/b" },
  ]
}
env {
  A = "1"
}`), jobfile.Options{})
	if err != nil {
		t.Fatal(err)
	}
	places := job.Groups[0].Tasks[0].Places
	for want, asked := range map[string][2]string{
		"5":  {"user"},
		"7":  {"args", "z"},
		"8":  {"args", "a"},
		"9":  {"args", "B"},
		"11": {"labels"},
		"12": {"labels.team"},
		"15": {"egress.allow", "x"},
		"14": {"egress.deny"}, // what holds it
		"17": {"ulimit.nofile"},
		"18": {"mount", "/a"},
		"22": {"mount", "/b"},
		"27": {"devices", "/dev/a"},
		"28": {"devices", "/dev/b"},
		"26": {"devices", "/dev/c"},
		"32": {"env.A"},
		"0":  {"image"},
	} {
		at, ok := places.Find(asked[0], asked[1])
		if fmt.Sprint(at.Line) != want || ok != (want != "0") {
			t.Errorf("%v: line %d, %v; want %s", asked, at.Line, ok, want)
		}
	}
	if at, ok := places.Find("command, args, entrypoint", ""); !ok || at.Line != 7 {
		t.Errorf("one of several: %v, %v", at, ok)
	}
}

// TestPitfalls (operators' HCL pitfalls, K7): where the parser's words lead
// astray, the message says what to write.
func TestPitfalls(t *testing.T) {
	for config, want := range map[string]string{
		`args = ["${X:-y}"]`:                                        `write "$$${" in config`,
		`args = ["${X%%.*}"]`:                                       `write "$$${" in config`,
		`args = ["%{http_code}"]`:                                   `write "%%%{"`,
		"labels {\n\"a.b\" = \"c\"\n}":                              `labels = { "a.b" = "c" }`,
		"sysctl {\n\"a.b\" = \"c\"\n}":                              `sysctl = { "a.b" = "c" }`,
		"mount {\ntype = \"bind\"\n}\nulimit {\n\"a.b\" = \"c\"\n}": `ulimit = { "a.b" = "c" }`,
		`labels { "a.b" = "c" }`:                                    `labels = { "a.b" = "c" }`,
		`egress { allow = ["a"] deny = ["b"] }`:                     "give each a line of its own",
		`args = ["$$${X:-y} %%%{x} ${NOMAD_ALLOC}"]`:                "",
	} {
		_, err := jobfile.Parse("f", inTask("driver = \"wardyn\"\nconfig {\n"+config+"\n}"), jobfile.Options{})
		if (err == nil) != (want == "") || err != nil && (!strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "f:")) {
			t.Errorf("%s: %v", config, err)
		}
	}
}

// TestClusterJudgesChecks: what Nomad refuses in a check is found before a job
// is submitted, and no more than that.
func TestClusterJudgesChecks(t *testing.T) {
	const file = "testdata/checks-wrong.hcl"
	faults := func(cluster bool) (found []string) {
		var e *jobfile.Error
		if _, err := jobfile.ParseFile(file, jobfile.Options{Cluster: cluster}); !errors.As(err, &e) {
			t.Fatal(err)
		}
		for _, p := range e.Problems {
			if p.Kind == jobfile.Fault {
				found = append(found, p.String())
			}
		}
		return found
	}
	if here, there := faults(false), faults(true); !slices.Equal(here, there) {
		t.Errorf("on one node:\n%s\nfor a cluster:\n%s", strings.Join(here, "\n"), strings.Join(there, "\n"))
	}
	src := []byte(`job "j" {
  group "g" {
    network {
      dynamic "port" {
        for_each = ["a"]
        labels   = [port.value]
        content {}
      }
    }
    dynamic "task" {
      for_each = ["x"]
      labels   = [task.value]
      content {}
    }
    service {
      provider = "nomad"
      name     = "s"
      port     = "a"
      check {
        type           = "http"
        path           = "/"
        interval       = "10s"
        timeout        = "2s"
        task           = "x"
        initial_status = ""
      }
    }
    task "old" {
      driver = "docker"
      config {
        image = "x"
      }
      resources {
        network {
          port "own" {}
        }
      }
      service {
        port = "own"
        check {
          type     = "tcp"
          interval = "10s"
          timeout  = "2s"
        }
      }
    }
  }
}
`)
	if _, err := jobfile.Parse("f", src, jobfile.Options{Cluster: true}); err != nil {
		t.Error(err)
	}
}
