package otlp

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode"

	common "go.opentelemetry.io/proto/otlp/common/v1"
	logs "go.opentelemetry.io/proto/otlp/logs/v1"
	resource "go.opentelemetry.io/proto/otlp/resource/v1"

	"github.com/wardyn/nomad-driver-wardyn/internal/control"
	"github.com/wardyn/nomad-driver-wardyn/runner/egress"
)

// scope names who wrote the records.
const scope = "github.com/wardyn/nomad-driver-wardyn"

// conventional are the fields of a record that OpenTelemetry's semantic
// conventions have a name for.
var conventional = map[string]string{
	"host": "server.address", "port": "server.port", "method": "http.request.method", "path": "url.path",
	"scheme": "url.scheme", "status": "http.response.status_code", "dialed_ip": "network.peer.address",
	"namespace": "nomad.namespace", "job": "nomad.job.id", "alloc": "nomad.allocation.id", "task": "nomad.task.name",
}

// elsewhere are fields that stand in a log record's own.
var elsewhere = []string{"time"}

// encode makes one message of spooled records, or of what is missing. A record
// that is none, which a damaged spool may hold, is left out and returned. The
// message is an ExportLogsServiceRequest on the wire, which LogsData is
// documented to be the same as.
func encode(node string, b batch, now time.Time) (m *logs.LogsData, bad []entry, err error) {
	out := &logs.ScopeLogs{Scope: &common.InstrumentationScope{Name: scope}}
	for _, e := range b.entries {
		r, err := logRecord(e.record, now)
		if err != nil {
			bad = append(bad, e)
			continue
		}
		out.LogRecords = append(out.LogRecords, r)
	}
	for _, g := range b.gaps {
		r, err := gapRecord(g, now)
		if err != nil {
			return nil, nil, err
		}
		out.LogRecords = append(out.LogRecords, r)
	}
	return &logs.LogsData{ResourceLogs: []*logs.ResourceLogs{{
		Resource: &resource.Resource{Attributes: []*common.KeyValue{
			attribute("service.name", "wardyn"), attribute("host.name", node),
		}},
		ScopeLogs: []*logs.ScopeLogs{out},
	}}}, bad, nil
}

// gapRecord says how many records of a run are missing.
func gapRecord(g gap, now time.Time) (*logs.LogRecord, error) {
	line, err := json.Marshal(control.OwnedRecord{Record: control.Record{
		V: 1, RunID: g.run, Time: now.UTC(), Kind: control.KindGap, Gap: &control.RecordGap{N: g.n},
	}})
	if err != nil {
		return nil, err
	}
	return logRecord(line, now)
}

// logRecord is a line as a log record: every field of it is an attribute, under
// its conventional name or as "wardyn." and its own.
func logRecord(line []byte, now time.Time) (*logs.LogRecord, error) {
	var r control.OwnedRecord
	if err := json.Unmarshal(line, &r); err != nil {
		return nil, err
	}
	var fields map[string]any
	d := json.NewDecoder(bytes.NewReader(line))
	d.UseNumber()
	if err := d.Decode(&fields); err != nil {
		return nil, err
	}
	out := &logs.LogRecord{
		TimeUnixNano: uint64(r.Time.UnixNano()), ObservedTimeUnixNano: uint64(now.UnixNano()),
		EventName: "wardyn.egress." + r.Kind, Body: value(sentence(r.Record)),
	}
	out.SeverityNumber, out.SeverityText = severity(r.Record)
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		if slices.Contains(elsewhere, name) {
			continue
		}
		key := conventional[name]
		if key == "" {
			key = "wardyn." + name
		}
		out.Attributes = append(out.Attributes, attribute(key, fields[name]))
	}
	return out, nil
}

// severity tells what passed from what did not, and both from what is missing.
func severity(r control.Record) (logs.SeverityNumber, string) {
	switch {
	case r.Kind == control.KindGap:
		return logs.SeverityNumber_SEVERITY_NUMBER_ERROR, "ERROR"
	case r.Decision == egress.Allow:
		return logs.SeverityNumber_SEVERITY_NUMBER_INFO, "INFO"
	}
	return logs.SeverityNumber_SEVERITY_NUMBER_WARN, "WARN"
}

// sentence is a record for people.
func sentence(r control.Record) string {
	if r.Gap != nil {
		return fmt.Sprintf("%d decision records are missing here", r.Gap.N)
	}
	return strings.TrimSpace(fmt.Sprintf("%s %s: %s %s:%d (%s)", r.Kind, r.Decision, r.Method, r.Host, r.Port, r.Code))
}

func attribute(key string, v any) *common.KeyValue {
	return &common.KeyValue{Key: key, Value: value(v)}
}

// value is a value of a record's JSON. Numbers in it are whole.
func value(v any) *common.AnyValue {
	switch v := v.(type) {
	case string:
		return &common.AnyValue{Value: &common.AnyValue_StringValue{StringValue: readable(v)}}
	case bool:
		return &common.AnyValue{Value: &common.AnyValue_BoolValue{BoolValue: v}}
	case json.Number:
		n, err := v.Int64()
		if err != nil {
			return value(v.String())
		}
		return &common.AnyValue{Value: &common.AnyValue_IntValue{IntValue: n}}
	case []any:
		list := &common.ArrayValue{}
		for _, x := range v {
			list.Values = append(list.Values, value(x))
		}
		return &common.AnyValue{Value: &common.AnyValue_ArrayValue{ArrayValue: list}}
	case map[string]any:
		list := &common.KeyValueList{}
		for _, k := range slices.Sorted(maps.Keys(v)) {
			list.Values = append(list.Values, attribute(k, v[k]))
		}
		return &common.AnyValue{Value: &common.AnyValue_KvlistValue{KvlistValue: list}}
	}
	return &common.AnyValue{}
}

// readable escapes what a terminal or a reader's eye would act on. Some of it a
// sandbox wrote.
func readable(s string) string {
	if !strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return strings.ToValidUTF8(s, "\uFFFD")
	}
	var b strings.Builder
	for _, r := range s {
		if unicode.IsPrint(r) {
			b.WriteRune(r)
			continue
		}
		fmt.Fprintf(&b, `\u%04x`, r)
	}
	return b.String()
}
