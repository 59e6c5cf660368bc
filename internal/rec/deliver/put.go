package deliver

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"strings"
	"time"
)

const (
	dialTimeout = 5 * time.Second
	putTimeout  = 30 * time.Second
	// mostAnswer bounds what is read of an answer.
	mostAnswer = 64 << 10
	// mostBack bounds how often a receiver may want pieces again.
	mostBack = 16
)

// refusal is an answer that another try will not change.
type refusal struct{ why string }

func (r *refusal) Error() string { return r.why }

// answer is what is read of one.
type answer struct {
	status int
	Offset *int64 `json:"offset"`
	Why    string `json:"error"`
}

// put delivers a piece and moves on to where its answer says.
func (d *Delivery) put(piece []byte) error {
	a, err := d.send(piece)
	if err != nil {
		return err
	}
	switch {
	case a.status/100 == 2:
		d.offset += int64(len(piece))
		return nil
	case a.status == 409 && a.Offset != nil && *a.Offset >= 0 && *a.Offset < d.offset && d.back < mostBack:
		d.offset, d.back = *a.Offset, d.back+1
		return nil
	case a.status == 408 || a.status == 429 || a.status/100 == 5 && a.status != 501 && a.status != 507:
		return fmt.Errorf("answer %d %s", a.status, a.Why)
	}
	return &refusal{fmt.Sprintf("answer %d %s", a.status, a.Why)}
}

// send makes one request. It is written by hand, since Go's client would make
// each first process of each sandbox several megabytes larger.
func (d *Delivery) send(piece []byte) (answer, error) {
	c, err := net.DialTimeout("tcp", d.host, dialTimeout)
	if err != nil {
		return answer{}, err
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(putTimeout))
	head := fmt.Sprintf("PUT %s HTTP/1.1\r\nHost: %s\r\nContent-Type: application/x-asciicast; session=%s; offset=%d\r\nContent-Length: %d\r\nConnection: close\r\n",
		d.path, d.host, d.session, d.offset, len(piece))
	if d.token != "" {
		head += "Authorization: Bearer " + d.token + "\r\n"
	}
	// A receiver that refuses may close before it has read everything: its
	// answer counts more than the failed write.
	_, werr := c.Write(append([]byte(head+"\r\n"), piece...))
	a, err := readAnswer(c)
	if err != nil && werr != nil {
		err = werr
	}
	return a, err
}

func readAnswer(r io.Reader) (a answer, err error) {
	in := bufio.NewReader(io.LimitReader(r, mostAnswer))
	line, err := in.ReadString('\n')
	if err != nil {
		return a, fmt.Errorf("no answer: %w", err)
	}
	if _, err := fmt.Sscanf(line, "HTTP/1.%d %d", new(int), &a.status); err != nil {
		return a, fmt.Errorf("answer %.40q is none of HTTP", line)
	}
	for {
		line, err := in.ReadString('\n')
		if err != nil {
			return a, fmt.Errorf("the answer broke off: %w", err)
		}
		if strings.TrimRight(line, "\r\n") == "" {
			break
		}
	}
	json.NewDecoder(in).Decode(&a) // says more where it is JSON
	return a, nil
}
