package control

import (
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"net"
	"net/netip"
	"time"

	"github.com/wardyn/nomad-driver-wardyn/internal/ports"
)

// acceptPause spaces attempts to accept that fail.
const acceptPause = time.Second

// ports are the run's inbound ports.
func (r *run) ports() *ports.Set {
	r.keep.Lock()
	defer r.keep.Unlock()
	return r.owner.Ports
}

// openPorts makes the socket at which the sidecar fetches the run's inbound
// ports, if there are any. r.life is held.
func (r *run) openPorts(dir string) error {
	set := r.ports()
	if len(set.Ports()) == 0 {
		return nil
	}
	l, err := listen(dir, portsName, "unixpacket", r.opts.UID)
	if err != nil {
		return err
	}
	r.give = l
	go func() {
		for {
			c, err := l.AcceptUnix()
			if errors.Is(err, net.ErrClosed) {
				return
			}
			if err != nil { // a lack of descriptors is waited out
				r.log.Warn("inbound ports cannot be handed over now; trying on", "error", err)
				time.Sleep(acceptPause)
				continue
			}
			if err := set.Serve(c, r.isToken); err != nil {
				r.log.Warn("inbound ports not handed over; the sidecar will ask again", "error", err)
			}
		}
	}()
	return nil
}

// isToken compares digests, which takes the same time whatever was sent.
func (r *run) isToken(given string) bool {
	want := r.currentConfig().parsed.RunToken
	a, b := sha256.Sum256([]byte(given)), sha256.Sum256([]byte(want))
	return subtle.ConstantTimeCompare(a[:], b[:]) == 1 && want != ""
}

// text is an address as JSON has it, nothing for the zero one.
func text(a netip.Addr) string {
	if !a.IsValid() {
		return ""
	}
	return a.String()
}
