package probe

import (
	"encoding/binary"
	"fmt"
	"strings"
)

// dnsQuery asks for the A records of name, recursion desired.
func dnsQuery(id uint16, name string) []byte {
	q := binary.BigEndian.AppendUint16(nil, id)
	q = append(q, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0) // RD, one question
	for label := range strings.SplitSeq(strings.TrimSuffix(name, "."), ".") {
		label = label[:min(len(label), 63)]
		q = append(q, byte(len(label)))
		q = append(q, label...)
	}
	return append(q, 0, 0, 1, 0, 1) // root, type A, class IN
}

// dnsAnswer describes an answer to the query of that id; "" is not one.
func dnsAnswer(id uint16, b []byte) string {
	if len(b) < 12 || binary.BigEndian.Uint16(b) != id || b[2]&0x80 == 0 {
		return ""
	}
	return fmt.Sprintf("answered rcode %d, %d records", b[3]&0xf, binary.BigEndian.Uint16(b[6:]))
}
