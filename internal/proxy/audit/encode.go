package audit

import (
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"github.com/wardyn/nomad-driver-wardyn/runner/egress"
)

// appendRecord appends a record as json.Marshal would write it, byte for byte.
// Two records go with every request, so this is written out: reflection took a
// quarter of what the proxy itself needs for a request.
func appendRecord(b []byte, d egress.DecisionLog) ([]byte, error) {
	if d.Scan != nil {
		return appendAny(b, d)
	}
	b = append(b, `{"request":{"RunID":"`...)
	b = append(b, d.Request.RunID.String()...)
	b = appendString(append(b, `","Host":`...), d.Request.Host)
	b = strconv.AppendInt(append(b, `,"Port":`...), int64(d.Request.Port), 10)
	b = appendString(append(b, `,"Method":`...), d.Request.Method)
	b = appendString(append(b, `,"Path":`...), d.Request.Path)
	b = d.Request.Time.AppendFormat(append(b, `,"Time":"`...), time.RFC3339Nano)
	b = appendString(append(b, `"},"decision":`...), string(d.Decision))
	b = appendString(append(b, `,"rule_source":`...), d.RuleSource)
	if d.ApprovalID != nil {
		b = append(append(append(b, `,"approval_id":"`...), d.ApprovalID.String()...), '"')
	}
	b = optString(b, `,"cause":`, d.Cause)
	b = optString(b, `,"via":`, d.Via)
	if d.Flow != nil {
		b = appendFlow(append(b, `,"flow":`...), d.Flow)
	}
	return append(b, '}'), nil
}

func appendFlow(b []byte, f *egress.FlowDetail) []byte {
	b = strconv.AppendInt(append(b, `{"v":`...), int64(f.Version), 10)
	b = strconv.AppendUint(append(b, `,"seq":`...), f.Seq, 10)
	b = appendString(append(b, `,"flow_id":`...), f.FlowID)
	b = appendString(append(b, `,"kind":`...), f.Kind)
	b = optString(b, `,"direction":`, f.Direction)
	b = optString(b, `,"rule":`, f.Rule)
	b = optString(b, `,"hint":`, f.Hint)
	b = optString(b, `,"scheme":`, f.Scheme)
	for i, a := range f.Resolved {
		if i == 0 {
			b = append(b, `,"resolved_ips":[`...)
		} else {
			b = append(b, ',')
		}
		b = appendString(b, a)
	}
	if len(f.Resolved) > 0 {
		b = append(b, ']')
	}
	b = optString(b, `,"dialed_ip":`, f.Dialed)
	if f.IPVetted != nil {
		b = strconv.AppendBool(append(b, `,"ip_vetted":`...), *f.IPVetted)
	}
	b = optString(b, `,"sni":`, f.SNI)
	b = optString(b, `,"alpn":`, f.ALPN)
	if f.MITM {
		b = append(b, `,"mitm":true`...)
	}
	b = optString(b, `,"visibility":`, f.Visibility)
	b = optString(b, `,"injected_rule":`, f.InjectedBy)
	b = optInt(b, `,"status":`, int64(f.Status))
	b = optInt(b, `,"bytes_up":`, f.BytesUp)
	b = optInt(b, `,"bytes_down":`, f.BytesDown)
	b = optInt(b, `,"ms_dns":`, f.DNSMillis)
	b = optInt(b, `,"ms_connect":`, f.DialMillis)
	b = optInt(b, `,"ms_total":`, f.Millis)
	b = optString(b, `,"close_reason":`, f.Close)
	return append(b, '}')
}

func optString(b []byte, key, v string) []byte {
	if v == "" {
		return b
	}
	return appendString(append(b, key...), v)
}

func optInt(b []byte, key string, v int64) []byte {
	if v == 0 {
		return b
	}
	return strconv.AppendInt(append(b, key...), v, 10)
}

// appendString appends a JSON string; what needs escapes is left to the library.
func appendString(b []byte, s string) []byte {
	for i := 0; i < len(s); i++ {
		if c := s[i]; c < ' ' || c >= 0x7f || c == '"' || c == '\\' || c == '<' || c == '>' || c == '&' {
			quoted, err := json.Marshal(s)
			if err != nil { // a string always can be written
				return append(b, `""`...)
			}
			return append(b, quoted...)
		}
	}
	b = append(b, '"')
	b = append(b, s...)
	return append(b, '"')
}

func appendAny(b []byte, d egress.DecisionLog) ([]byte, error) {
	j, err := json.Marshal(d)
	if err != nil {
		return nil, fmt.Errorf("encode: %w", err)
	}
	return append(b, j...), nil
}
