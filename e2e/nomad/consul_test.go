package nomad

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
)

// consul stands in for an agent of Consul's: a client runs script checks only
// for services that are registered with one. It keeps what is registered and
// what the checks report.
type consul struct {
	url string

	mu       sync.Mutex // guards what follows
	services map[string]map[string]any
	checks   map[string]map[string]any
	reports  map[string][]report // by the check's name
}

// report is what one run of a check came to.
type report struct{ Status, Output string }

func startConsul(t *testing.T) *consul {
	c := &consul{services: map[string]map[string]any{}, checks: map[string]map[string]any{}, reports: map[string][]report{}}
	mux := http.NewServeMux()
	for pattern, answer := range map[string]func(id string, body map[string]any) any{
		"GET /v1/agent/self": func(string, map[string]any) any {
			return map[string]any{"Config": map[string]any{"Version": "1.20.0", "Server": true, "Datacenter": "dc1", "NodeName": "node"}}
		},
		"GET /v1/agent/services":                func(string, map[string]any) any { return c.services },
		"GET /v1/agent/checks":                  func(string, map[string]any) any { return c.checks },
		"PUT /v1/agent/service/register":        c.register,
		"PUT /v1/agent/service/deregister/{id}": func(id string, _ map[string]any) any { delete(c.services, id); return nil },
		"PUT /v1/agent/check/register":          c.registerCheck,
		"PUT /v1/agent/check/deregister/{id}":   func(id string, _ map[string]any) any { delete(c.checks, id); return nil },
		"PUT /v1/agent/check/update/{id}":       c.update,
	} {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			var body map[string]any
			json.NewDecoder(r.Body).Decode(&body) // none is none
			c.mu.Lock()
			defer c.mu.Unlock()
			out := answer(r.PathValue("id"), body)
			if out == errNoCheck {
				http.Error(w, "unknown check", http.StatusNotFound)
				return
			}
			json.NewEncoder(w).Encode(out)
		})
	}
	s := httptest.NewServer(mux)
	t.Cleanup(s.Close)
	c.url = s.URL
	return c
}

// errNoCheck is the answer about a check that nobody registered.
var errNoCheck = fmt.Errorf("no such check")

// config makes an agent use it.
func (c *consul) config() string {
	return fmt.Sprintf(`
consul {
  address          = %q
  auto_advertise   = false
  server_auto_join = false
  client_auto_join = false
}
client {
  options = {
    "fingerprint.denylist" = "env_aws,env_gce,env_azure,env_digitalocean,vault"
  }
}
`, strings.TrimPrefix(c.url, "http://"))
}

func (c *consul) register(_ string, body map[string]any) any {
	id, _ := body["ID"].(string)
	c.services[id] = map[string]any{
		"ID": id, "Service": body["Name"], "Tags": body["Tags"], "Meta": body["Meta"], "Port": body["Port"], "Address": body["Address"],
	}
	list, _ := body["Checks"].([]any)
	for _, v := range list {
		if check, ok := v.(map[string]any); ok {
			check["ServiceID"] = id
			c.registerCheck("", check)
		}
	}
	return nil
}

func (c *consul) registerCheck(_ string, body map[string]any) any {
	id, _ := body["CheckID"].(string)
	if id == "" {
		id, _ = body["ID"].(string)
	}
	c.checks[id] = map[string]any{"CheckID": id, "Name": body["Name"], "ServiceID": body["ServiceID"], "Status": "passing"}
	return nil
}

func (c *consul) update(id string, body map[string]any) any {
	check, ok := c.checks[id]
	if !ok {
		return errNoCheck
	}
	name, _ := check["Name"].(string)
	var r report
	r.Status, _ = body["Status"].(string)
	r.Output, _ = body["Output"].(string)
	c.reports[name] = append(c.reports[name], r)
	return nil
}

// said are the reports of one check so far.
func (c *consul) said(check string) []report {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]report(nil), c.reports[check]...)
}
