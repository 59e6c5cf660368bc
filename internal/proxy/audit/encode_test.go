package audit

import (
	"encoding/json"
	"reflect"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/wardyn/nomad-driver-wardyn/runner/egress"
)

// TestEncodingIsTheLibrarys: byte for byte, for every field alone and for all
// of them; a field that is added to the record and forgotten here shows up.
func TestEncodingIsTheLibrarys(t *testing.T) {
	id, no := uuid.New(), false
	full := egress.DecisionLog{
		Request:  egress.Request{RunID: id, Host: "a.test", Port: 443, Method: "GET", Path: "/x", Time: time.Date(2026, 1, 2, 3, 4, 5, 678000000, time.UTC)},
		Decision: egress.Deny, RuleSource: "policy:denied", ApprovalID: &id, Cause: `deny entry "x" <&> \ ü` + "\x01\u2028", Via: "direct",
		Flow: &egress.FlowDetail{IPVetted: &no, Resolved: []string{"1.2.3.4", "::1"}},
	}
	fill(reflect.ValueOf(full.Flow).Elem())
	cases := []egress.DecisionLog{{}, full, {Flow: &egress.FlowDetail{}}, {Scan: &egress.ScanSummary{Mode: "alert"}}}
	flow := reflect.TypeOf(egress.FlowDetail{})
	for i := range flow.NumField() {
		one := egress.DecisionLog{Flow: &egress.FlowDetail{}}
		reflect.ValueOf(one.Flow).Elem().Field(i).Set(reflect.ValueOf(full.Flow).Elem().Field(i))
		cases = append(cases, one)
	}
	top := reflect.TypeOf(egress.DecisionLog{})
	for i := range top.NumField() {
		var one egress.DecisionLog
		reflect.ValueOf(&one).Elem().Field(i).Set(reflect.ValueOf(full).Field(i))
		cases = append(cases, one)
	}
	for _, d := range cases {
		want, err := json.Marshal(d)
		if err != nil {
			t.Fatal(err)
		}
		got, err := appendRecord(nil, d)
		if err != nil || string(got) != string(want) {
			t.Errorf("got  %s (%v)\nwant %s", got, err, want)
		}
	}
}

// fill sets every empty field to something that is written.
func fill(v reflect.Value) {
	for i := range v.NumField() {
		f := v.Field(i)
		switch f.Kind() {
		case reflect.String:
			f.SetString("value " + v.Type().Field(i).Name)
		case reflect.Int, reflect.Int64:
			f.SetInt(int64(i + 1))
		case reflect.Uint64:
			f.SetUint(uint64(i + 1))
		case reflect.Bool:
			f.SetBool(true)
		}
	}
}

func BenchmarkEncode(b *testing.B) {
	d := record("a.test")
	d.Flow = &egress.FlowDetail{FlowID: "x-1", Kind: "decision", Rule: "a.test", Resolved: []string{"1.2.3.4"}, Dialed: "1.2.3.4", SNI: "a.test", Visibility: "sni", Status: 200}
	d.Request.Time = time.Now()
	b.ReportAllocs()
	buf := make([]byte, 0, 1024)
	for b.Loop() {
		buf, _ = appendRecord(buf[:0], d)
	}
}
