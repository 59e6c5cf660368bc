package h1

import (
	"strconv"
	"strings"
)

// Body framings.
const (
	// LengthChunked marks a body in chunks.
	LengthChunked = -1
	// LengthUntilClose marks an answer's body that ends with the connection.
	LengthUntilClose = -2
)

// Request is the head of a request.
type Request struct {
	Method string
	Target string
	Minor  int // of HTTP/1.Minor
	Fields Fields
	// Length is the body's length, 0 for none, or LengthChunked.
	Length int64
	// Host is the Host field; HasHost tells an empty one from none.
	Host    string
	HasHost bool
	// Expect100: the client waits for a 100 before it sends the body.
	Expect100 bool
	// Close: the connection ends after this message; always so with HTTP/1.0.
	Close bool
}

// ReadRequest takes one request head off the source. For a head that is there
// but refused it returns what could be read of method and target with an
// *Error; the connection is of no use after that.
func ReadRequest(s *Source) (Request, error) {
	head, err := s.head(MaxRequestHead)
	if err != nil {
		return Request{}, err
	}
	line, rest, _ := strings.Cut(head, "\r\n")
	req, err := parseRequestLine(line)
	if err != nil {
		return req, err
	}
	if req.Fields, err = parseFields(rest); err != nil {
		return req, err
	}
	return req, req.interpret()
}

func parseRequestLine(line string) (Request, error) {
	method, rest, ok1 := strings.Cut(line, " ")
	target, version, ok2 := strings.Cut(rest, " ")
	req := Request{Method: method, Target: target}
	if !ok1 || !ok2 || strings.ContainsAny(version, " \t") || target == "" {
		return req, refuse(400, "the request line is not method, target and version with single blanks")
	}
	if err := CheckTarget(target); err != nil {
		return req, err
	}
	minor, err := parseVersion(version)
	req.Minor = minor
	if err != nil {
		return req, err
	}
	if !token(method) {
		return req, refuse(400, "the method is not a token")
	}
	return req, nil
}

// CheckTarget refuses a request target that could not stand in a request line:
// with a byte that would end it for some parsers, or that is not ASCII.
func CheckTarget(target string) error {
	for i := 0; i < len(target); i++ {
		if target[i] <= ' ' || target[i] >= 0x7f {
			return refuse(400, "byte 0x%02x is not allowed in a request target", target[i])
		}
	}
	return nil
}

func parseVersion(v string) (int, error) {
	switch v {
	case "HTTP/1.1":
		return 1, nil
	case "HTTP/1.0":
		return 0, nil
	}
	d, ok := strings.CutPrefix(v, "HTTP/")
	if ok && len(d) == 3 && digit(d[0]) && d[1] == '.' && digit(d[2]) {
		return 1, refuse(505, "only HTTP/1.0 and HTTP/1.1 are spoken here")
	}
	return 1, refuse(400, "the request line does not end in an HTTP version")
}

// parseFields reads a header section; s ends with an empty line.
func parseFields(s string) (Fields, error) {
	fields := make(Fields, 0, 16)
	for {
		line, rest, ok := strings.Cut(s, "\r\n")
		if !ok {
			return nil, refuse(400, "the head has no end")
		}
		if line == "" {
			return fields, nil
		}
		s = rest
		if len(fields) == MaxFields {
			return nil, refuse(431, "the head has more than %d fields", MaxFields)
		}
		f, err := parseField(line)
		if err != nil {
			return nil, err
		}
		fields = append(fields, f)
	}
}

func parseField(line string) (Field, error) {
	if line[0] == ' ' || line[0] == '\t' {
		return Field{}, refuse(400, "a header line is folded")
	}
	name, value, ok := strings.Cut(line, ":")
	if !ok || !token(name) {
		return Field{}, refuse(400, "a header line is not a name, a colon and a value")
	}
	value = strings.Trim(value, " \t")
	for i := 0; i < len(value); i++ {
		if c := value[i]; c < ' ' && c != '\t' || c == 0x7f {
			return Field{}, refuse(400, "a control byte in the value of a header")
		}
	}
	return Field{Name: name, Value: value}, nil
}

// interpret derives framing and connection options from the fields.
func (r *Request) interpret() error {
	fr := framing{minor: r.Minor}
	r.Close = r.Minor == 0
	for _, f := range r.Fields {
		switch {
		case strings.EqualFold(f.Name, "Host"):
			if r.HasHost {
				return refuse(400, "more than one Host header")
			}
			r.Host, r.HasHost = f.Value, true
		case strings.EqualFold(f.Name, "Connection"):
			r.Close = r.Close || listHas(f.Value, "close")
		case strings.EqualFold(f.Name, "Expect"):
			if !strings.EqualFold(f.Value, "100-continue") {
				return refuse(417, "only 100-continue can be expected")
			}
			r.Expect100 = r.Minor == 1
		default:
			if err := fr.note(f); err != nil {
				return err
			}
		}
	}
	length, err := fr.request()
	r.Length = length
	if err != nil {
		return err
	}
	if !r.HasHost && r.Minor == 1 && r.Method != "CONNECT" {
		return refuse(400, "the Host header is missing")
	}
	return nil
}

// framing collects the two headers that delimit a body.
type framing struct {
	minor   int
	length  string
	hasLen  bool
	chunked bool
}

func (fr *framing) note(f Field) error {
	switch {
	case strings.EqualFold(f.Name, "Content-Length"):
		if fr.hasLen && fr.length != f.Value {
			return refuse(400, "two Content-Length headers differ")
		}
		fr.length, fr.hasLen = f.Value, true
	case strings.EqualFold(f.Name, "Transfer-Encoding"):
		if fr.chunked || !strings.EqualFold(f.Value, "chunked") {
			return refuse(501, "the only transfer coding is chunked, once")
		}
		fr.chunked = true
	}
	return nil
}

func (fr *framing) request() (int64, error) {
	switch {
	case fr.chunked && fr.minor == 0:
		return 0, refuse(400, "chunks in an HTTP/1.0 message")
	case fr.chunked && fr.hasLen:
		return 0, refuse(400, "Content-Length and Transfer-Encoding in one message")
	case fr.chunked:
		return LengthChunked, nil
	case fr.hasLen:
		return parseLength(fr.length)
	}
	return 0, nil
}

func parseLength(s string) (int64, error) {
	if s == "" || strings.Trim(s, "0123456789") != "" {
		return 0, refuse(400, "Content-Length is not a decimal number")
	}
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		return 0, refuse(400, "Content-Length is out of range")
	}
	return n, nil
}

func digit(c byte) bool { return '0' <= c && c <= '9' }

var tokenByte = func() (t [256]bool) {
	for c := '0'; c <= '9'; c++ {
		t[c] = true
	}
	for c := 'a'; c <= 'z'; c++ {
		t[c], t[c-'a'+'A'] = true, true
	}
	for _, c := range "!#$%&'*+-.^_`|~" {
		t[c] = true
	}
	return t
}()

func token(s string) bool {
	for i := 0; i < len(s); i++ {
		if !tokenByte[s[i]] {
			return false
		}
	}
	return s != ""
}
