package wire

import (
	"bytes"
	"encoding/json"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
)

func TestTrap4LogLine(t *testing.T) {
	rows := []struct {
		line     string
		harmless bool
	}{
		{`plain text`, true},
		{`{"@message":"m","@level":"info","@timestamp":"t","k":1}`, true},
		{`{"k":{"@message":1}}`, true},
		{`["@message"]`, true},
		{`{}`, true},
		{`{"@message":1}`, false},
		{`{"@level":null}`, false},
		{`{"@timestamp":["x"]}`, false},
		{`{"@message":"m","@level":{"a":1}}`, false},
		{`{"@message":1`, true}, // no JSON at all
	}
	for _, r := range rows {
		if err := CheckLogLine([]byte(r.line)); (err == nil) != r.harmless {
			t.Errorf("%s: %v", r.line, err)
		}
	}
}

// TestTrap4LoggerNeverWritesSuchALine: not even with arguments named like the three keys.
func TestTrap4LoggerNeverWritesSuchALine(t *testing.T) {
	var out bytes.Buffer
	log := NewLogger(&out)
	log.Info("fine", "k", 1)
	log.Info("hostile", "@message", 7)
	log.Info("hostile", "@level", []int{1})
	log.Info("hostile", "@timestamp", nil)
	log.Trace("last")
	lines := bytes.Split(bytes.TrimSpace(out.Bytes()), []byte("\n"))
	if len(lines) != 5 {
		t.Fatalf("%d lines, want 5:\n%s", len(lines), out.Bytes())
	}
	for _, line := range lines {
		if err := CheckLogLine(line); err != nil {
			t.Errorf("%s: %v", line, err)
		}
	}
	var first map[string]any
	if err := json.Unmarshal(lines[0], &first); err != nil {
		t.Fatal(err)
	}
	if _, err := time.Parse(hclog.TimeFormatJSON, first["@timestamp"].(string)); err != nil {
		t.Errorf("clients cannot read the time: %v", err)
	}
	if !log.IsTrace() {
		t.Error("the client filters levels; the plugin sends all")
	}
}
