package gitproto

import (
	"bytes"
	"fmt"
	"strings"
)

// Capabilities are those that the client of a push names with its first command.
func Capabilities(push []byte) map[string]bool {
	out := map[string]bool{}
	line, _, err := packet(push)
	if err != nil {
		return out
	}
	_, list, _ := bytes.Cut(line, []byte{0})
	for name := range strings.FieldsSeq(string(list)) {
		out[name] = true
	}
	return out
}

// Limits of a packet: 65,520 bytes in all, 4 of them its length, and one that
// names the band where there are bands.
const (
	maxLine = 65520 - 4
	maxBand = maxLine - 1
)

// Refusal is the report of a server that takes none of the updates, with the
// reason for each. The text goes to the client's user as what the remote side
// says; it is left out where the client reads no bands.
func Refusal(caps map[string]bool, updates []Update, reason, text string) []byte {
	var report []byte
	report = appendPacket(report, "unpack ok\n")
	for _, u := range updates {
		room := max(0, maxLine-len(u.Ref)-len("ng  \n"))
		report = appendPacket(report, fmt.Sprintf("ng %s %s\n", u.Ref, reason[:min(len(reason), room)]))
	}
	report = append(report, "0000"...)
	if !caps["side-band-64k"] {
		return report
	}
	out := appendPacket(nil, "\x02"+text[:min(len(text), maxBand)])
	for len(report) > 0 {
		n := min(len(report), maxBand)
		out = appendPacket(out, "\x01"+string(report[:n]))
		report = report[n:]
	}
	return append(out, "0000"...)
}

func appendPacket(b []byte, line string) []byte {
	return append(fmt.Appendf(b, "%04x", len(line)+4), line...)
}
