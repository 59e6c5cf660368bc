package main

import (
	"bytes"
	"encoding/binary"
	"fmt"

	"golang.org/x/sys/unix"
)

// reconfigure asks the kernel to change the network: each request is about the
// loopback interface, which every sandbox has, and would redirect nothing.
func reconfigure() {
	addr := []byte{192, 0, 2, 1}
	index := int32(1)
	ask("static route", unix.RTM_NEWROUTE,
		unix.RtMsg{Family: unix.AF_INET, Dst_len: 32, Table: unix.RT_TABLE_MAIN, Protocol: unix.RTPROT_STATIC, Scope: unix.RT_SCOPE_LINK, Type: unix.RTN_UNICAST},
		attr{unix.RTA_DST, addr}, attr{unix.RTA_OIF, binary.NativeEndian.AppendUint32(nil, uint32(index))})
	ask("ARP entry", unix.RTM_NEWNEIGH, unix.NdMsg{Family: unix.AF_INET, Ifindex: index, State: unix.NUD_PERMANENT},
		attr{unix.NDA_DST, addr}, attr{unix.NDA_LLADDR, []byte{2, 0, 0, 0, 0, 1}})
	ask("address", unix.RTM_NEWADDR, unix.IfAddrmsg{Family: unix.AF_INET, Prefixlen: 32, Index: uint32(index)},
		attr{unix.IFA_LOCAL, addr}, attr{unix.IFA_ADDRESS, addr})
}

type attr struct {
	kind  uint16
	value []byte
}

// ask sends one request and prints whether it was granted.
func ask(name string, kind uint16, body any, attrs ...attr) {
	fmt.Printf("%s: %s\n", name, granted(kind, body, attrs))
}

func granted(kind uint16, body any, attrs []attr) string {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_ROUTE)
	if err != nil {
		return "refused"
	}
	defer unix.Close(fd)
	var b bytes.Buffer
	binary.Write(&b, binary.NativeEndian, unix.NlMsghdr{Type: kind, Flags: unix.NLM_F_REQUEST | unix.NLM_F_ACK | unix.NLM_F_CREATE | unix.NLM_F_REPLACE, Seq: 1})
	binary.Write(&b, binary.NativeEndian, body)
	for _, a := range attrs {
		binary.Write(&b, binary.NativeEndian, unix.RtAttr{Len: uint16(unix.SizeofRtAttr + len(a.value)), Type: a.kind})
		b.Write(a.value)
		b.Write(make([]byte, (4-b.Len()%4)%4))
	}
	binary.NativeEndian.PutUint32(b.Bytes(), uint32(b.Len()))
	unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Sec: 5})
	if unix.Sendto(fd, b.Bytes(), 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}) != nil {
		return "refused"
	}
	reply := make([]byte, 512)
	n, _, err := unix.Recvfrom(fd, reply, 0)
	if err != nil || n < unix.SizeofNlMsghdr+4 || binary.NativeEndian.Uint16(reply[4:]) != unix.NLMSG_ERROR {
		return "refused"
	}
	if code := int32(binary.NativeEndian.Uint32(reply[unix.SizeofNlMsghdr:])); code != 0 {
		return "refused"
	}
	return "given"
}
