package proxy

import (
	"bufio"
	"compress/flate"
	"compress/gzip"
	"compress/zlib"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/wardyn/nomad-driver-wardyn/internal/proxy/h1"
	"github.com/wardyn/nomad-driver-wardyn/internal/proxy/policy"
	"github.com/wardyn/nomad-driver-wardyn/runner/egress"
)

// A credential can be taken out of an answer only as far as the answer can be
// read. Requests that carry one therefore ask for nothing that hides it, and
// an answer that comes in such a shape all the same is decoded or refused.

// shapesAnswer reports the fields by which a client asks for an answer in which
// a credential could not be seen: compressed, in other characters, or cut into
// pieces that hold a part of it each.
func shapesAnswer(name string) bool { return isField(name, answerShapes) }

var answerShapes = []string{
	"A-IM", "Range", "If-Range", "Accept-Charset", "Accept-Encoding", "Grpc-Accept-Encoding", "Connect-Accept-Encoding",
}

// messageCodings are the fields that say that the messages in a body are
// compressed one by one.
var messageCodings = [...]string{"Grpc-Encoding", "Connect-Content-Encoding"}

// screenAnswer looks at an answer to a request that carried cred (nil for none).
// It returns the content coding to undo, "" for none, or the ruling that refuses
// an answer which cannot be read.
func screenAnswer(a egress.Authority, cred *credential, status int, values func(string) []string) (string, *policy.Ruling) {
	if cred == nil {
		return "", nil
	}
	if status == http.StatusPartialContent || status == http.StatusIMUsed {
		return "", unreadable(a, fmt.Sprintf("the origin answered %d with a part of the content although nobody asked", status))
	}
	for _, name := range messageCodings {
		if c := coding(values(name)); c != "" {
			return "", unreadable(a, "the origin answered with messages in the coding "+codingName(c))
		}
	}
	switch c := coding(values("Content-Encoding")); c {
	case "", "gzip", "deflate":
		return c, nil
	case "x-gzip":
		return "gzip", nil
	default:
		return "", unreadable(a, "the origin answered in the content coding "+codingName(c)+" although nobody asked")
	}
}

// coding is the list of codings that a body has, in lower case and without the
// one that does nothing.
func coding(lines []string) string {
	var out []string
	for _, line := range lines {
		for c := range strings.SplitSeq(line, ",") {
			if c = strings.ToLower(strings.Trim(c, " \t")); c != "" && c != "identity" {
				out = append(out, c)
			}
		}
	}
	return strings.Join(out, ", ")
}

// namedCodings are those that a refusal repeats.
var namedCodings = []string{"br", "compress", "dcb", "dcz", "deflate", "gzip", "snappy", "x-compress", "x-gzip", "zstd"}

// codingName is a list of codings for people. A refusal goes to the sandbox and
// into records, and what an origin names as a coding may be the credential.
func codingName(list string) string {
	for c := range strings.SplitSeq(list, ", ") {
		if !slices.Contains(namedCodings, c) {
			return "(a name that is not known)"
		}
	}
	return strconv.Quote(printable(list))
}

func unreadable(a egress.Authority, cause string) *policy.Ruling {
	return &policy.Ruling{Decision: egress.Deny, Source: policy.DialFailed,
		Cause: a.String() + ": " + cause + "; the credential that was injected could not be found in it",
		Hint:  "the origin must send whole answers, uncompressed or in gzip or deflate; or have no inject rule for this host"}
}

// screen is screenAnswer for an answer over HTTP/1.
func (x *exchange) screen(resp h1.Response) (string, *policy.Ruling) {
	return screenAnswer(x.v.Authority, x.out.inject, resp.Status, func(name string) []string {
		var out []string
		for _, f := range resp.Fields {
			if strings.EqualFold(f.Name, name) {
				out = append(out, f.Value)
			}
		}
		return out
	})
}

// decoder undoes a content coding while a body passes, in a few dozen KiB of
// memory whatever the body decodes to.
type decoder struct {
	src    *bufio.Reader
	coding string
	rd     io.Reader // made when the first byte is there
}

func newDecoder(rd io.Reader, coding string) *decoder {
	return &decoder{src: bufio.NewReader(rd), coding: coding}
}

// Read returns decoded bytes. An empty body decodes to nothing.
func (d *decoder) Read(p []byte) (int, error) {
	if d.rd == nil {
		if _, err := d.src.Peek(1); err != nil {
			return 0, err
		}
		rd, err := d.open()
		if err != nil {
			return 0, truncated(err)
		}
		d.rd = rd
	}
	n, err := d.rd.Read(p)
	if !errors.Is(err, io.EOF) {
		return n, err
	}
	_, err = d.src.Peek(1) // the end of the content must be the body's
	if err == nil {
		err = errors.New("there is more behind the end of the compressed content")
	}
	return n, err
}

func (d *decoder) open() (io.Reader, error) {
	if d.coding == "gzip" {
		return gzip.NewReader(d.src)
	}
	// "deflate" is zlib's format; some servers leave its two bytes away.
	head, err := d.src.Peek(2)
	if err == nil && head[0]&0x0f == 8 && (int(head[0])<<8|int(head[1]))%31 == 0 {
		return zlib.NewReader(d.src)
	}
	return flate.NewReader(d.src), nil
}

func truncated(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}
