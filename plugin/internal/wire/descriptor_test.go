package wire

import (
	"encoding/csv"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/wardyn/nomad-driver-wardyn/plugin/internal/wire/basepb"
	"github.com/wardyn/nomad-driver-wardyn/plugin/internal/wire/driverpb"
	"github.com/wardyn/nomad-driver-wardyn/plugin/internal/wire/hclspecpb"
	"github.com/wardyn/nomad-driver-wardyn/plugin/internal/wire/structspb"
)

// TestDescriptors compares the compiled messages, enums and services with the contract of
// Nomad 2.0.5, row by row in both directions.
func TestDescriptors(t *testing.T) {
	want := contractRows(t)
	got := map[string]bool{}
	for _, file := range []protoreflect.FileDescriptor{
		basepb.File_wardyn_base_proto, driverpb.File_wardyn_driver_proto,
		hclspecpb.File_wardyn_hclspec_proto, structspb.File_wardyn_structs_proto,
	} {
		for _, row := range fileRows(file) {
			got[row] = true
		}
	}
	for row := range want {
		if !got[row] {
			t.Errorf("missing: %s", row)
		}
	}
	for row := range got {
		if !want[row] {
			t.Errorf("not in the contract: %s", row)
		}
	}
	if len(want) != 322 {
		t.Errorf("the contract has %d rows, want 322", len(want))
	}
}

func contractRows(t *testing.T) map[string]bool {
	t.Helper()
	f, err := os.Open("testdata/nomad-proto-fields.tsv")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	r := csv.NewReader(f)
	r.Comma = '\t'
	all, err := r.ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	rows := map[string]bool{}
	for _, cols := range all[1:] {
		if cols[6] != "ONLY_AT_v1.6.10" {
			rows[strings.Join(cols[:6], " ")] = true
		}
	}
	return rows
}

func fileRows(file protoreflect.FileDescriptor) []string {
	rows := slices.Concat(messageRows(file.Messages()), enumRows(file.Enums()))
	for i := range file.Services().Len() {
		svc := file.Services().Get(i)
		for j := range svc.Methods().Len() {
			m := svc.Methods().Get(j)
			rows = append(rows, fmt.Sprintf("RPC %s %s %s %s %s",
				svc.FullName(), m.Name(), m.Input().FullName(), m.Output().FullName(), streamKind(m)))
		}
	}
	return rows
}

func streamKind(m protoreflect.MethodDescriptor) string {
	switch {
	case m.IsStreamingClient() && m.IsStreamingServer():
		return "bidi-stream"
	case m.IsStreamingServer():
		return "server-stream"
	default:
		return "unary"
	}
}

func messageRows(all protoreflect.MessageDescriptors) []string {
	var rows []string
	for i := range all.Len() {
		m := all.Get(i)
		if m.IsMapEntry() {
			continue
		}
		for j := range m.Fields().Len() {
			f := m.Fields().Get(j)
			rows = append(rows, fmt.Sprintf("FIELD %s %s %d %s %s", m.FullName(), f.Name(), f.Number(), fieldType(f), label(f)))
		}
		for j := range m.ReservedRanges().Len() {
			for n := m.ReservedRanges().Get(j)[0]; n < m.ReservedRanges().Get(j)[1]; n++ {
				rows = append(rows, fmt.Sprintf("RESERVED %s - %d - -", m.FullName(), n))
			}
		}
		if m.Fields().Len() == 0 {
			rows = append(rows, fmt.Sprintf("EMPTY %s - - - -", m.FullName()))
		}
		rows = append(rows, messageRows(m.Messages())...)
		rows = append(rows, enumRows(m.Enums())...)
	}
	return rows
}

func enumRows(all protoreflect.EnumDescriptors) []string {
	var rows []string
	for i := range all.Len() {
		e := all.Get(i)
		for j := range e.Values().Len() {
			v := e.Values().Get(j)
			rows = append(rows, fmt.Sprintf("ENUM %s %s %d - -", e.FullName(), v.Name(), v.Number()))
		}
	}
	return rows
}

func fieldType(f protoreflect.FieldDescriptor) string {
	switch {
	case f.IsMap():
		return "map<" + fieldType(f.MapKey()) + "," + fieldType(f.MapValue()) + ">"
	case f.Message() != nil:
		return string(f.Message().FullName())
	case f.Enum() != nil:
		return string(f.Enum().FullName())
	default:
		return f.Kind().String()
	}
}

func label(f protoreflect.FieldDescriptor) string {
	switch {
	case f.IsMap():
		return "map"
	case f.IsPacked():
		return "repeated-packed"
	case f.IsList():
		return "repeated"
	case f.ContainingOneof() != nil && !f.ContainingOneof().IsSynthetic():
		return "oneof:" + string(f.ContainingOneof().Name())
	default:
		return "singular"
	}
}
