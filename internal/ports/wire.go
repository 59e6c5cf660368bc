package ports

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

// The two sides speak in packets: one hello, then an offer for each port that
// the sidecar has not, then the end of the connection. A socket travels beside
// its offer.

const (
	// exchangeTimeout bounds a whole exchange.
	exchangeTimeout = 15 * time.Second
	maxPacket       = 64 << 10
)

// hello is the sidecar's packet.
type hello struct {
	Token string   `json:"token"`
	Have  []string `json:"have"` // keys of what it holds
}

// offer is one packet of the driver's: a port and its socket, or why not.
type offer struct {
	Port  Port   `json:"port"`
	Error string `json:"error,omitempty"`
}

// Serve answers one sidecar on c and closes it. authorised judges the token.
// A port that cannot be opened is offered as an error, for the sidecar to come
// back for; the first such is returned.
func (s *Set) Serve(c *net.UnixConn, authorised func(token string) bool) error {
	defer c.Close()
	if err := c.SetDeadline(time.Now().Add(exchangeTimeout)); err != nil {
		return err
	}
	b := make([]byte, maxPacket)
	n, err := c.Read(b)
	if err != nil {
		return fmt.Errorf("ports: %w", err)
	}
	var h hello
	if err := json.Unmarshal(b[:n], &h); err != nil {
		return fmt.Errorf("ports: %w", err)
	}
	if !authorised(h.Token) {
		return errors.New("ports: the run token is missing or another run's")
	}
	var failed error
	for _, p := range s.Ports() {
		if slices.Contains(h.Have, p.Key()) {
			continue
		}
		f, err := s.take(p)
		if err != nil && failed == nil {
			failed = err
		}
		if err := send(c, p, f, err); err != nil {
			return fmt.Errorf("ports: %w", err)
		}
	}
	return failed
}

// send offers one port, and closes its socket here.
func send(c *net.UnixConn, p Port, f *os.File, fault error) error {
	o := offer{Port: p}
	if fault != nil {
		o.Error = fault.Error()
	}
	b, err := json.Marshal(o)
	if err != nil {
		return err
	}
	if f == nil {
		_, err = c.Write(b)
		return err
	}
	defer f.Close()
	raw, err := f.SyscallConn()
	if err != nil {
		return err
	}
	var werr error
	err = raw.Control(func(fd uintptr) { _, _, werr = c.WriteMsgUnix(b, unix.UnixRights(int(fd)), nil) })
	return errors.Join(err, werr)
}

// Opened is a port with its socket.
type Opened struct {
	Port
	File *os.File
}

// Fetch asks at path for every port but those that are had already. The error
// names the ports that could not be opened; the others are returned all the
// same.
func Fetch(path, token string, have []string) ([]Opened, error) {
	c, err := net.DialUnix("unixpacket", nil, &net.UnixAddr{Name: path, Net: "unixpacket"})
	if err != nil {
		return nil, fmt.Errorf("ports: %w", err)
	}
	defer c.Close()
	if err := c.SetDeadline(time.Now().Add(exchangeTimeout)); err != nil {
		return nil, err
	}
	b, err := json.Marshal(hello{Token: token, Have: have})
	if err != nil {
		return nil, err
	}
	if _, err := c.Write(b); err != nil {
		return nil, fmt.Errorf("ports: %w", err)
	}
	var got []Opened
	var errs []error
	for {
		o, f, err := receive(c)
		switch {
		case errors.Is(err, io.EOF):
			return got, errors.Join(errs...)
		case err != nil:
			return got, errors.Join(append(errs, fmt.Errorf("ports: %w", err))...)
		case f == nil:
			errs = append(errs, errors.New(o.Error))
		default:
			got = append(got, Opened{Port: o.Port, File: f})
		}
	}
}

// receive reads one offer; without a socket it is the reason why.
func receive(c *net.UnixConn) (offer, *os.File, error) {
	b, oob := make([]byte, maxPacket), make([]byte, unix.CmsgSpace(4))
	n, oobn, _, _, err := c.ReadMsgUnix(b, oob)
	if err != nil {
		return offer{}, nil, err
	}
	if n == 0 {
		return offer{}, nil, io.EOF
	}
	var o offer
	if err := json.Unmarshal(b[:n], &o); err != nil {
		return offer{}, nil, err
	}
	if oobn == 0 {
		return o, nil, nil
	}
	messages, err := unix.ParseSocketControlMessage(oob[:oobn])
	if err != nil {
		return offer{}, nil, err
	}
	fds, err := unix.ParseUnixRights(&messages[0])
	if err != nil {
		return offer{}, nil, err
	}
	unix.CloseOnExec(fds[0])
	return o, os.NewFile(uintptr(fds[0]), o.Port.String()), nil
}
