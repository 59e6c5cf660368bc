package control

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/wardyn/nomad-driver-wardyn/internal/clean"
	"github.com/wardyn/nomad-driver-wardyn/internal/proxy/audit"
	"github.com/wardyn/nomad-driver-wardyn/runner/egress"
)

// decision is a sidecar's n-th refusal.
func decision(id uuid.UUID, n uint64) egress.DecisionLog {
	return egress.DecisionLog{
		Request: egress.Request{RunID: id, Host: "b.example", Port: 443, Method: "CONNECT",
			Time: time.Date(2026, 1, 2, 3, 4, 5, int(n), time.UTC)},
		Decision: egress.Deny, RuleSource: "policy:default-deny", Cause: "no entry of the policy allows it", Via: "direct",
		Flow: &egress.FlowDetail{Version: 1, Seq: n, FlowID: fmt.Sprint("f", n), Kind: "decision", Hint: "add b.example:443 to egress.allow"},
	}
}

func encode(t *testing.T, l egress.DecisionLog) []byte {
	t.Helper()
	b, err := json.Marshal(l)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// lines reads a run's file back.
func lines(t *testing.T, files string) []Record {
	t.Helper()
	return readAll(t, filepath.Join(files, journalName))
}

func TestK42FlatRecord(t *testing.T) {
	b, files := newBench(t), filesDir(t)
	id := uuid.MustParse("11111111-2222-4333-8444-555566667777")
	c := sidecar(t, b.open(t, id, files, nil), tokenOf(id))
	full := decision(id, 1)
	full.Flow = &egress.FlowDetail{
		Version: 1, Seq: 1, FlowID: "f1", Kind: "end", Rule: "*.example:443", Scheme: "https",
		Resolved: []string{"192.0.2.7"}, Dialed: "192.0.2.7", SNI: "b.example", ALPN: "h2", MITM: true, Visibility: "full",
		InjectedBy: "key", Status: 200, BytesUp: 1, BytesDown: 2, DNSMillis: 3, DialMillis: 4, Millis: 5, Close: "client",
	}
	full.Decision, full.RuleSource, full.Via, full.Cause = egress.Allow, "policy:allowed", "upstream-proxy", ""
	full.Request.Path = "/p?token=1#x"
	post(t, c, full)
	post(t, c, decision(id, 2))

	got, err := os.ReadFile(filepath.Join(files, journalName))
	if err != nil {
		t.Fatal(err)
	}
	policy := b.runs[id].config.policyHash
	want := `{"v":1,"seq":1,"run_id":"11111111-2222-4333-8444-555566667777","flow_id":"f1","flow_seq":1,"time":"2026-01-02T03:04:05.000000001Z",` +
		`"kind":"end","decision":"allow","code":"policy:allowed","rule":{"source":"policy:allowed","id":"*.example:443"},"policy_hash":"` + policy + `",` +
		`"scheme":"https","host":"b.example","port":443,"method":"CONNECT","path":"/p","resolved_ips":["192.0.2.7"],"dialed_ip":"192.0.2.7",` +
		`"upstream_proxy":true,"sni":"b.example","alpn":"h2","mitm":true,"visibility":"full","injected":{"rule_id":"key"},` +
		`"status":200,"bytes_up":1,"bytes_down":2,"ms_dns":3,"ms_connect":4,"ms_total":5,"close_reason":"client"}` + "\n" +
		`{"v":1,"seq":2,"run_id":"11111111-2222-4333-8444-555566667777","flow_id":"f2","flow_seq":2,"time":"2026-01-02T03:04:05.000000002Z",` +
		`"kind":"decision","decision":"deny","code":"policy:default-deny","rule":{"source":"policy:default-deny"},"policy_hash":"` + policy + `",` +
		`"host":"b.example","port":443,"method":"CONNECT","cause":"no entry of the policy allows it","hint":"add b.example:443 to egress.allow"}` + "\n"
	if string(got) != want {
		t.Errorf("file\n%s\nwant\n%s", got, want)
	}
	for p, mode := range map[string]os.FileMode{files: os.ModeDir | 0o700, filepath.Join(files, journalName): 0o600} {
		if fi, err := os.Stat(p); err != nil || fi.Mode() != mode {
			t.Errorf("%s has mode %v (%v), want %v", p, fi.Mode(), err, mode)
		}
	}
}

// No field of a sidecar's record is lost on the way into the file and back.
func TestFlattenLosesNothing(t *testing.T) {
	l := egress.DecisionLog{Flow: &egress.FlowDetail{}}
	for _, v := range []reflect.Value{reflect.ValueOf(&l).Elem(), reflect.ValueOf(&l.Request).Elem(), reflect.ValueOf(l.Flow).Elem()} {
		for i := range v.NumField() {
			switch f := v.Field(i); f.Kind() {
			case reflect.String:
				f.SetString(v.Type().Field(i).Name)
			case reflect.Int, reflect.Int64:
				f.SetInt(int64(i) + 1)
			case reflect.Uint64:
				f.SetUint(uint64(i) + 1)
			case reflect.Bool:
				f.SetBool(true)
			case reflect.Slice:
				f.Set(reflect.ValueOf([]string{"s"}))
			}
		}
	}
	approval := uuid.New()
	l.ApprovalID, l.Scan, l.Via = &approval, &egress.ScanSummary{Scanned: true}, viaUpstream
	l.Request.RunID, l.Request.Time = uuid.New(), time.Unix(1, 2).UTC()
	l.Flow.Version = recordVersion
	back := unflatten(flatten(l))
	back.Flow.Seq = l.Flow.Seq // the file numbers anew and keeps the sidecar's in flow_seq
	if !reflect.DeepEqual(back, l) {
		t.Errorf("back\n%+v %+v\nwant\n%+v %+v", back, back.Flow, l, l.Flow)
	}
}

func TestSecretsAreMasked(t *testing.T) {
	b, id, files := newBench(t), uuid.New(), filesDir(t)
	var heard egress.DecisionLog
	secret := "line\n\"quoted\"<s3cret>"
	if err := b.Prepare(Run{ID: id, FilesDir: files, Secrets: []string{secret, "short"}, OnDecision: func(l egress.DecisionLog) { heard = l }}); err != nil {
		t.Fatal(err)
	}
	e, err := b.Open(t.Context(), id, proxyConfig(t, id), runNet)
	if err != nil {
		t.Fatal(err)
	}
	l := decision(id, 1)
	l.Request.Path = "/x/" + secret + "/y"
	l.Cause = "short " + tokenOf(id)
	l.Flow.SNI = tokenOf(id) + ".example"
	l.Scan = &egress.ScanSummary{Findings: []egress.ScanFinding{{Sample: secret}}}
	post(t, sidecar(t, e, tokenOf(id)), l)
	if heard.Request.Path != "/x/<secret-hidden>/y" || heard.Cause != "short <secret-hidden>" ||
		heard.Flow.SNI != "<secret-hidden>.example" || heard.Scan.Findings[0].Sample != clean.Hidden {
		t.Errorf("heard %+v %+v", heard, heard.Flow)
	}
	got, _ := os.ReadFile(filepath.Join(files, journalName))
	if bytes.Contains(got, []byte("s3cret")) || bytes.Contains(got, []byte("token-of-")) {
		t.Errorf("invariant 3: the file holds a secret: %s", got)
	}
}

func TestLongestSecretFirst(t *testing.T) {
	l, err := newMasker([]string{"12345678", "12345678-and-more"}).decision(egress.DecisionLog{Cause: "a 12345678-and-more b 12345678 c"})
	if err != nil || l.Cause != "a <secret-hidden> b <secret-hidden> c" {
		t.Errorf("%q, %v", l.Cause, err)
	}
}

func TestK36FilesAreSafeToShow(t *testing.T) {
	b, id, files := newBench(t), uuid.New(), filesDir(t)
	c := sidecar(t, b.open(t, id, files, nil), tokenOf(id))
	l := decision(id, 1)
	nasty := "\x1b[2J\r\n\x7f\u0085\u202e\u2066\u200b\ufeff\U000e0041<b>\xff é漢"
	l.Request.Host, l.Cause, l.Flow.Rule = nasty, nasty, nasty
	post(t, c, l)
	raw, err := os.ReadFile(filepath.Join(files, journalName))
	if err != nil {
		t.Fatal(err)
	}
	if strings.Count(string(raw), "\n") != 1 {
		t.Errorf("one record in %d lines", strings.Count(string(raw), "\n"))
	}
	for _, r := range strings.TrimSuffix(string(raw), "\n") {
		if r < ' ' || r == 0x7f || r > 0x7f && !slices.Contains([]rune("é漢\ufffd"), r) || r == '<' {
			t.Errorf("%q stands as it is in %s", r, raw)
		}
	}
	if got := lines(t, files)[0]; got.Host != strings.ToValidUTF8(nasty, "\ufffd") {
		t.Errorf("it reads back as %q", got.Host)
	}
}

func TestRecordsThatAreRefused(t *testing.T) {
	b, id, files := newBench(t), uuid.New(), filesDir(t)
	heard := 0
	e := b.open(t, id, files, func(egress.DecisionLog) { heard++ })
	for name, change := range map[string]func(*egress.DecisionLog){
		"another run's": func(l *egress.DecisionLog) { l.Request.RunID = uuid.New() },
		"no run's":      func(l *egress.DecisionLog) { l.Request.RunID = uuid.Nil },
		"no verdict":    func(l *egress.DecisionLog) { l.Decision = "" },
		"a false one":   func(l *egress.DecisionLog) { l.Decision = "Allow" },
		"a false kind":  func(l *egress.DecisionLog) { l.Flow.Kind = "x" },
		"no time":       func(l *egress.DecisionLog) { l.Request.Time = time.Time{} },
	} {
		l := decision(id, 1)
		change(&l)
		// The sidecar counts it as lost instead of sending it for ever.
		if err := sidecar(t, e, tokenOf(id)).Decisions(t.Context(), encode(t, l)); !errors.Is(err, audit.ErrRejected) {
			t.Errorf("%s: %v, want a rejection", name, err)
		}
	}
	for _, body := range []string{"", "x", `{"request":1}`, "[]"} {
		if status, _ := request(t, e, "POST", egress.PathDecisions, "Bearer "+tokenOf(id), body); status != 400 {
			t.Errorf("%q: %d, want 400", body, status)
		}
	}
	if got := lines(t, files); len(got) != 0 || heard != 0 {
		t.Errorf("kept %+v, heard %d", got, heard)
	}
}

func TestSidecarsReportOfLostRecords(t *testing.T) {
	b, id, files := newBench(t), uuid.New(), filesDir(t)
	c := sidecar(t, b.open(t, id, files, nil), tokenOf(id))
	l := decision(id, 1)
	l.RuleSource, l.Flow.Kind, l.Request.Host = "egress.decisions.dropped:7", "gap", ""
	post(t, c, l)
	if got := lines(t, files); len(got) != 1 || got[0].Kind != "gap" || got[0].Gap == nil || got[0].Gap.N != 7 || got[0].Decision != "" {
		t.Errorf("records %+v", got)
	}
	if s, _ := b.Summary(id); s.LostBySidecar != 7 || s.Denied != 0 {
		t.Errorf("summary %+v", s)
	}
}

// One sidecar delivers in order; several runs at once do not mix.
func TestRunsAtOnce(t *testing.T) {
	b := newBench(t)
	const runs, records = 4, 50
	var wg sync.WaitGroup
	for range runs {
		id, files := uuid.New(), filesDir(t)
		var heard []uint64
		c := sidecar(t, b.open(t, id, files, func(l egress.DecisionLog) { heard = append(heard, l.Flow.Seq) }), tokenOf(id))
		wg.Go(func() {
			for n := range uint64(records) {
				for range 2 { // each once more, as after a lost answer
					if err := c.Decisions(t.Context(), encode(t, decision(id, n+1))); err != nil {
						t.Error(err)
					}
				}
			}
			got := lines(t, files)
			if len(got) != records || len(heard) != records {
				t.Errorf("%d records, %d heard, want %d", len(got), len(heard), records)
			}
			for i, r := range got {
				if r.Seq != uint64(i+1) || r.FlowSeq != r.Seq || r.RunID != id {
					t.Errorf("record %d is %+v", i, r)
				}
			}
		})
	}
	wg.Wait()
}
