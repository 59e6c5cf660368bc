// Package deliver carries a recording out of a sandbox while it is made: to the
// sandbox's own proxy, which hands it to whoever looks after the run. What was
// delivered is safe, whatever becomes of the sandbox.
package deliver

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// every is how long an event waits for its delivery.
	every = time.Second
	// most bounds a piece, and with it a line of the recording.
	most = 1 << 20
	// lastly bounds the deliveries after the command's end.
	lastly = 10 * time.Second
)

// Delivery is one recording's.
type Delivery struct {
	host    string // and port
	path    string
	token   string
	session string
	offset  int64 // up to where it was taken
	back    int   // how often the receiver wanted pieces again
	every   time.Duration
	lastly  time.Duration
}

// New prepares the delivery to a URL "http://host:port/path". token, which may
// be "", is for a receiver that is not the sandbox's own proxy.
func New(to, token string) (*Delivery, error) {
	rest, isHTTP := strings.CutPrefix(to, "http://")
	host, path, _ := strings.Cut(rest, "/")
	if _, port, err := net.SplitHostPort(host); !isHTTP || err != nil || port == "" || strings.ContainsAny(to, " \t\r\n") {
		return nil, fmt.Errorf("-upload-url %q: want http://host:port/path, a route of the sandbox's own proxy", to)
	}
	// Asked of the kernel itself: crypto/rand tests itself at the start of each
	// program that has it, and wardyn-rec is the first of every exec.
	id := make([]byte, 8)
	if _, err := unix.Getrandom(id, 0); err != nil {
		return nil, fmt.Errorf("a name for the delivery: %w", err)
	}
	return &Delivery{host: host, path: "/" + path, token: token, session: fmt.Sprintf("%x", id), every: every, lastly: lastly}, nil
}

// Follow delivers a file that grows by whole lines, up to its end once done is
// closed. Its error says that a part was not delivered.
func (d *Delivery) Follow(path string, done <-chan struct{}) error {
	tick := time.NewTicker(d.every)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			var refused *refusal
			if err := d.all(path); errors.As(err, &refused) {
				return err
			}
		case <-done:
			return d.rest(path)
		}
	}
}

// rest delivers what is left, and tries for a while.
func (d *Delivery) rest(path string) error {
	for end := time.Now().Add(d.lastly); ; time.Sleep(min(d.every, time.Second/4)) {
		err := d.all(path)
		var refused *refusal
		if err == nil || errors.As(err, &refused) || time.Now().After(end) {
			return err
		}
	}
}

// all delivers what the file has now.
func (d *Delivery) all(path string) error {
	f, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil // the recorder has not begun
	}
	if err != nil {
		return err
	}
	defer f.Close()
	for buf := make([]byte, most); ; {
		n, err := f.ReadAt(buf, d.offset)
		if err != nil && err != io.EOF {
			return err
		}
		whole := bytes.LastIndexByte(buf[:n], '\n') + 1
		switch {
		case whole == 0 && n == len(buf):
			return &refusal{fmt.Sprintf("a line of the recording is longer than %d bytes", most)}
		case whole == 0:
			return nil
		}
		if err := d.put(buf[:whole]); err != nil {
			return err
		}
	}
}
