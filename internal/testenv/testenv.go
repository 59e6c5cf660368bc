// Package testenv gives tests what they need of the machine: an engine, its
// runtimes, an image, the static binaries and a private data dir. Each helper
// cleans up after itself, and skips only when a tool is missing; the variable
// WARDYN_TEST_REQUIRE (a comma list of docker, runsc, nomad) turns such a skip
// into a failure. Only tests import it.
package testenv

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/docker/docker/client"

	"github.com/wardyn/nomad-driver-wardyn/internal/datadir"
)

// missing skips the test, or fails it when the tool is required.
func missing(t testing.TB, tool, reason string) {
	t.Helper()
	if slices.Contains(strings.Split(os.Getenv("WARDYN_TEST_REQUIRE"), ","), tool) {
		t.Fatalf("%s is required here: %s", tool, reason)
	}
	t.Skipf("no %s: %s", tool, reason)
}

// Engine is the endpoint of the Docker engine under test: DOCKER_HOST, else
// the usual socket.
func Engine(t testing.TB) string {
	t.Helper()
	endpoint := os.Getenv("DOCKER_HOST")
	if endpoint == "" {
		endpoint = client.DefaultDockerHost
	}
	ctx, cancel := context.WithTimeout(t.Context(), Patience)
	defer cancel()
	if _, err := Client(t, endpoint).Ping(ctx); err != nil {
		missing(t, "docker", err.Error())
	}
	return endpoint
}

// Client is a client of the engine at endpoint, closed with the test.
func Client(t testing.TB, endpoint string) *client.Client {
	t.Helper()
	c, err := client.NewClientWithOpts(client.WithHost(endpoint), client.WithAPIVersionNegotiation())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// Runtimes lists the runtimes to run engine tests under: runc, and runsc where
// it is registered.
func Runtimes(t testing.TB) []string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), Patience)
	defer cancel()
	info, err := Client(t, Engine(t)).Info(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if _, ok := info.Runtimes["runsc"]; ok {
		return []string{"runc", "runsc"}
	}
	if slices.Contains(strings.Split(os.Getenv("WARDYN_TEST_REQUIRE"), ","), "runsc") {
		t.Fatal("runsc is required here and not registered with the engine")
	}
	t.Log("runsc is not registered with the engine: runc only")
	return []string{"runc"}
}

// Class is the class that a runtime of [Runtimes] enforces.
func Class(runtime string) string {
	if runtime == "runsc" {
		return "CC2"
	}
	return "CC1"
}

// EachClass runs a test under the class of every runtime, a subtest each.
func EachClass(t *testing.T, test func(t *testing.T, class string)) {
	t.Helper()
	for _, rt := range Runtimes(t) {
		t.Run(rt, func(t *testing.T) { test(t, Class(rt)) })
	}
}

// EachClassAtOnce is [EachClass] with the subtests side by side, for tests that
// do nothing to what they share: most of their time goes by waiting.
func EachClassAtOnce(t *testing.T, test func(t *testing.T, class string)) {
	t.Helper()
	EachClass(t, func(t *testing.T, class string) {
		t.Parallel()
		test(t, class)
	})
}

// Dir is a private data dir, hence an instance of its own. When the test ends
// nothing of that instance may be left on the engine or in its run root.
func Dir(t testing.TB) *datadir.Dir {
	t.Helper()
	d, err := datadir.Open(filepath.Join(t.TempDir(), "data"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		left, _ := os.ReadDir(d.RunRoot())
		for _, e := range left {
			t.Errorf("left in the run root: %s", e.Name())
		}
		os.RemoveAll(d.RunRoot())
		if err := d.RemoveRunRoot(); err != nil {
			t.Error(err)
		}
	})
	return d
}
