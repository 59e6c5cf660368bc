package otlp

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/wardyn/nomad-driver-wardyn/internal/control"
	"github.com/wardyn/nomad-driver-wardyn/runner/egress"
)

var at = time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC)

func TestEveryFieldIsAnAttribute(t *testing.T) {
	r := control.Record{
		V: 1, RunID: uuid.MustParse("11111111-1111-4111-8111-111111111111"), FlowID: "f-1", Time: at, Kind: "decision", Decision: egress.Deny,
		Code: "policy:denied", Rule: &control.RecordRule{Source: "policy:denied", ID: "*.example"}, Scheme: "https", Host: "a.example", Port: 443,
		Method: "GET", Path: "/a\x1b[31m\u202e", Resolved: []string{"192.0.2.1"}, Dialed: "192.0.2.1", MITM: true, Status: 403, BytesDown: 1 << 40,
	}
	line, err := json.Marshal(control.OwnedRecord{Owner: control.Owner{Namespace: "n", Job: "j", Alloc: "al", Task: "t"}, Record: r})
	if err != nil {
		t.Fatal(err)
	}
	spooled := []entry{{record: line}, {record: line[1:]}}
	m, bad, err := encode("node-1", batch{entries: spooled, gaps: []gap{{r.RunID, 7}}}, at.Add(time.Second))
	if err != nil || len(bad) != 1 || &bad[0].record[0] != &line[1] {
		t.Fatalf("%v; left out: %v", err, bad)
	}
	var b strings.Builder
	for _, l := range m.GetResourceLogs()[0].GetScopeLogs()[0].GetLogRecords() {
		fmt.Fprintf(&b, "%s %s %d: %s\n", l.GetEventName(), l.GetSeverityText(), l.GetObservedTimeUnixNano()-l.GetTimeUnixNano(), l.GetBody().GetStringValue())
		for _, a := range l.GetAttributes() {
			fmt.Fprintf(&b, "  %s = %s\n", a.GetKey(), strings.Join(strings.Fields(a.GetValue().String()), " "))
		}
	}
	for _, want := range []string{
		"wardyn.egress.decision WARN 1000000000: decision deny: GET a.example:443 (policy:denied)\n", "wardyn.egress.gap ERROR 0: 7 decision records are missing here\n",
		`server.address = string_value:"a.example"`, "server.port = int_value:443", `http.request.method = string_value:"GET"`, "http.response.status_code = int_value:403",
		`url.path = string_value:"/a\\u001b[31m\\u202e"`, "wardyn.bytes_down = int_value:1099511627776", "wardyn.mitm = bool_value:true",
		`wardyn.resolved_ips = array_value:{values:{string_value:"192.0.2.1"}}`, `wardyn.rule = kvlist_value:{values:{key:"id"`, `nomad.job.id = string_value:"j"`,
		`nomad.allocation.id = string_value:"al"`, `wardyn.run_id = string_value:"11111111-1111-4111-8111-111111111111"`, "wardyn.gap = kvlist_value:{values:{key:\"n\" value:{int_value:7}}}",
	} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("%s is missing in\n%s", want, b.String())
		}
	}
	var fields map[string]any
	json.Unmarshal(line, &fields)
	got := m.GetResourceLogs()[0].GetScopeLogs()[0].GetLogRecords()[0].GetAttributes()
	if len(got) != len(fields)-len(elsewhere) {
		t.Errorf("%d attributes of %d fields", len(got), len(fields))
	}
	if got := m.GetResourceLogs()[0].GetResource().String(); !strings.Contains(got, "node-1") || !strings.Contains(got, "service.name") {
		t.Errorf("the resource: %s", got)
	}
}

// What a collector answers with is somebody else's bytes.
func FuzzPartialSuccess(f *testing.F) {
	f.Add([]byte("\x0a\x09\x08\x02\x12\x05no way"))
	f.Add([]byte("\x0a\xff"))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, b []byte) {
		if _, text := partialSuccess(b); len(text) > len(b) {
			t.Error("a text longer than the answer")
		}
	})
}
