package h1

import (
	"strconv"
	"strings"
)

// Response is the head of an answer.
type Response struct {
	Status int
	Reason string
	Minor  int
	Fields Fields
	// Length is the body's length, LengthChunked or LengthUntilClose.
	Length int64
	Close  bool
}

// MaxInterim bounds the interim answers (1xx) to one request. They come before
// the verdict is written and are no body, so that nothing else would bound them.
const MaxInterim = 256

// ErrInterim is the fault of an origin that sends more of them.
var ErrInterim error = &Error{Status: 502, Reason: "more than 256 interim answers to one request"}

// ReadResponse takes the head of an answer to a request with this method off
// the source.
func ReadResponse(s *Source, method string) (Response, error) {
	head, err := s.head(MaxResponseHead)
	if err != nil {
		return Response{}, err
	}
	line, rest, _ := strings.Cut(head, "\r\n")
	resp, err := parseStatusLine(line)
	if err != nil {
		return resp, err
	}
	if resp.Fields, err = parseFields(rest); err != nil {
		return resp, err
	}
	return resp, resp.interpret(method)
}

func parseStatusLine(line string) (Response, error) {
	version, rest, _ := strings.Cut(line, " ")
	code, reason, _ := strings.Cut(rest, " ")
	bad := refuse(502, "the answer has no proper status line")
	minor := 1
	switch version {
	case "HTTP/1.0":
		minor = 0
	case "HTTP/1.1":
	default:
		return Response{}, bad
	}
	if len(code) != 3 || !digit(code[0]) || !digit(code[1]) || !digit(code[2]) || code[0] == '0' {
		return Response{}, bad
	}
	for i := 0; i < len(reason); i++ {
		if c := reason[i]; c < ' ' && c != '\t' || c == 0x7f {
			return Response{}, bad
		}
	}
	status, _ := strconv.Atoi(code)
	return Response{Status: status, Reason: reason, Minor: minor}, nil
}

func (r *Response) interpret(method string) error {
	fr := framing{minor: r.Minor}
	keepAlive := r.Minor == 1
	for _, f := range r.Fields {
		if strings.EqualFold(f.Name, "Connection") {
			r.Close = r.Close || listHas(f.Value, "close")
			keepAlive = keepAlive || listHas(f.Value, "keep-alive")
			continue
		}
		if err := fr.note(f); err != nil {
			return refuse(502, "the answer's framing: %s", err)
		}
	}
	r.Close = r.Close || !keepAlive
	switch {
	case method == "HEAD" || r.Status < 200 || r.Status == 204 || r.Status == 304:
		r.Length = 0
	case fr.chunked:
		r.Length = LengthChunked
		r.Close = r.Close || fr.hasLen // RFC 9112, 6.3: never reuse after both
	case fr.hasLen:
		n, err := parseLength(fr.length)
		if err != nil {
			return refuse(502, "the answer's framing: %s", err)
		}
		r.Length = n
	default:
		r.Length = LengthUntilClose
		r.Close = true
	}
	return nil
}

// AppendStatus appends the status line of an answer.
func AppendStatus(dst []byte, status int, reason string) []byte {
	dst = append(dst, "HTTP/1.1 "...)
	dst = strconv.AppendInt(dst, int64(status), 10)
	dst = append(dst, ' ')
	dst = append(dst, reason...)
	return append(dst, "\r\n"...)
}
