package plugin

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/wardyn/nomad-driver-wardyn/plugin/host"
)

// TestBug51DroppedMemoryMax (nomad#10895): a memory_max that the scheduler dropped
// is an event, when the operator names an agent to ask. One that is in force
// is none, nor is an agent that does not answer.
func TestBug51DroppedMemoryMax(t *testing.T) {
	const token = "planted-secret-token"
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte(token+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	asked := make(chan string, 10)
	agent := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		asked <- req.URL.Path + " " + req.Header.Get("X-Nomad-Token")
		w.Write([]byte(`{"Job": {"TaskGroups": [
			{"Name": "g", "Tasks": [{"Name": "some", "Resources": {"MemoryMaxMB": 128}}, {"Name": "all", "Resources": {"MemoryMaxMB": -1}}, {"Name": "none", "Resources": {"MemoryMaxMB": 0}}]}]}}`))
	}))
	defer agent.Close()
	b := newBench(t, benchOptions{config: map[string]any{"agent_api": []any{map[string]any{"url": agent.URL, "token_file": file}}}})
	for name, want := range map[string]string{"some": droppedMax("128 MiB"), "all": droppedMax("no limit"), "none": ""} {
		tc := b.task(name, args("true"))
		if _, _, err := b.host.StartTask(b.ctx(), tc); err != nil {
			t.Fatal(err)
		}
		if got := <-asked; got != "/v1/allocation/"+tc.AllocID+" "+token {
			t.Errorf("asked %q", got)
		}
		if want != "" {
			b.eventually("the event", func() bool { return slices.Contains(b.said(tc.ID), want) })
		}
		b.wait(tc.ID)
		if said := strings.Join(b.said(tc.ID), "\n"); strings.Contains(said, token) || want == "" && strings.Contains(said, "memory_max") {
			t.Errorf("%s: %s", name, said)
		}
		b.destroy(tc.ID)
	}
	tc := b.task("some", args("true"))
	tc.Resources = host.Resources{CPU: 100, MemoryMB: 64, MemoryMaxMB: 128}
	if _, _, err := b.host.StartTask(b.ctx(), tc); err != nil {
		t.Fatal(err)
	}
	b.wait(tc.ID)
	b.destroy(tc.ID)
	if len(asked) > 0 {
		t.Errorf("asked although memory_max is in force: %s", <-asked)
	}
	b.nothingLeft()
}

// TestAgentAPIErrors: what an agent says wrong is an error without the token.
func TestAgentAPIErrors(t *testing.T) {
	const token = "planted-secret-token"
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte(token), 0o600); err != nil {
		t.Fatal(err)
	}
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("a redirect was followed") }))
	defer other.Close()
	for name, answer := range map[string]http.HandlerFunc{
		"403 Forbidden":  func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusForbidden) },
		"cannot be read": func(w http.ResponseWriter, _ *http.Request) { w.Write([]byte("<html>")) },
		"302 Found": func(w http.ResponseWriter, req *http.Request) {
			http.Redirect(w, req, other.URL, http.StatusFound)
		},
	} {
		agent := httptest.NewServer(answer)
		_, err := (&AgentAPI{URL: agent.URL, TokenFile: file}).allocation(t.Context(), "a", "default")
		if err == nil || !strings.Contains(err.Error(), name) || strings.Contains(err.Error(), token) {
			t.Errorf("want %q, got %v", name, err)
		}
		agent.Close()
	}
}

func TestAgentAPIOptions(t *testing.T) {
	for want, c := range map[string]AgentAPIConfig{
		"agent_api.url: want http":           {URL: "127.0.0.1:4646"},
		"without user, path":                 {URL: "http://127.0.0.1:4646/v1"},
		"would travel unencrypted":           {URL: "http://nomad.example:4646", TokenFile: "/t"},
		"agent_api.token_file = \"t\"":       {URL: "http://127.0.0.1:4646", TokenFile: "t"},
		"agent_api.ca_file = \"../ca.pem\":": {URL: "https://nomad.example:4646", CAFile: "../ca.pem"},
	} {
		f := &faults{}
		if agentAPI(f, &c); !strings.Contains(f.Error(), want) {
			t.Errorf("want %q in %s", want, f.Error())
		}
	}
	f := &faults{}
	if a := agentAPI(f, &AgentAPIConfig{URL: "https://nomad.example:4646/", TokenFile: "/t"}); len(f.list) > 0 || a.URL != "https://nomad.example:4646" {
		t.Errorf("%+v, %v", a, f.list)
	}
}
