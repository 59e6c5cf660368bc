// Package gitproto reads what the proxy has to understand of git's smart HTTP
// protocol: which repository and service a request is for, and which refs a
// push wants to change. It reads bytes and decides nothing.
package gitproto

import (
	"bytes"
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"
)

// Services of the protocol.
const (
	UploadPack  = "git-upload-pack"  // fetch
	ReceivePack = "git-receive-pack" // push
)

// Request is one request of the protocol.
type Request struct {
	Repo    string // canonical lower-case org/repo
	Path    string // "info/refs" or the service
	Service string
}

// Push reports whether the request is part of a push, its advertisement included.
func (r Request) Push() bool { return r.Service == ReceivePack }

// ErrLFS is a request of git's large file storage, which has a protocol of its own.
var ErrLFS = errors.New("git LFS is not brokered")

// Parse reads "org/repo[.git]/PATH" and the query of a request. Anything that
// is not exactly a request of the protocol is an error.
func Parse(method, route, query string) (Request, error) {
	org, rest, _ := strings.Cut(route, "/")
	repo, path, ok := strings.Cut(rest, "/")
	repo = strings.TrimSuffix(strings.ToLower(repo), ".git")
	if !ok || !segment(org) || !segment(repo) || strings.HasSuffix(repo, ".git") {
		return Request{}, errors.New("want <org>/<repo>.git/ and a path of git's smart HTTP protocol")
	}
	r := Request{Repo: strings.ToLower(org) + "/" + repo, Path: path}
	switch {
	case strings.HasPrefix(path, "info/lfs/"):
		return r, ErrLFS
	case path == "info/refs" && method == "GET":
		q, err := url.ParseQuery(query)
		if err != nil || len(q) != 1 || len(q["service"]) != 1 {
			return r, errors.New("want info/refs?service=git-upload-pack or git-receive-pack, and nothing else")
		}
		r.Service = q.Get("service")
	case (path == UploadPack || path == ReceivePack) && method == "POST" && query == "":
		r.Service = path
	default:
		return r, errors.New("this method and path are not part of git's smart HTTP protocol")
	}
	if r.Service != UploadPack && r.Service != ReceivePack {
		return r, errors.New("the only services are git-upload-pack and git-receive-pack")
	}
	return r, nil
}

// Target is the request's path and query at the git server.
func (r Request) Target() string {
	t := "/" + r.Repo + ".git/" + r.Path
	if r.Path == "info/refs" {
		t += "?service=" + r.Service
	}
	return t
}

// segment admits the characters that organisations and repositories have.
func segment(s string) bool {
	if s == "" || len(s) > 100 || s[0] == '.' || s[0] == '-' {
		return false
	}
	for i := 0; i < len(s); i++ {
		c := s[i]
		if !(c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '-' || c == '_' || c == '.') {
			return false
		}
	}
	return true
}

// Update is one ref that a push wants to change.
type Update struct {
	Old, New, Ref string
}

// Delete reports whether the ref is to be deleted.
func (u Update) Delete() bool { return u.New != "" && strings.Trim(u.New, "0") == "" }

// ErrShort asks for more bytes of the push.
var ErrShort = errors.New("gitproto: more bytes needed")

// ParsePush reads the commands at the start of a push, up to the flush packet
// behind them. It returns ErrShort while b is a proper beginning.
func ParsePush(b []byte) ([]Update, error) {
	var out []Update
	for {
		line, rest, err := packet(b)
		if err != nil {
			return nil, err
		}
		if line == nil {
			return out, nil
		}
		b = rest
		if len(out) == 0 {
			line, _, _ = bytes.Cut(line, []byte{0}) // the first command carries capabilities
		}
		line = bytes.TrimSuffix(line, []byte("\n"))
		if bytes.HasPrefix(line, []byte("shallow ")) {
			continue
		}
		u, err := command(string(line))
		if err != nil {
			return nil, err
		}
		out = append(out, u)
	}
}

// packet cuts one pkt-line off; a nil line is the flush packet.
func packet(b []byte) (line, rest []byte, err error) {
	if len(b) < 4 {
		return nil, b, ErrShort
	}
	n, err := strconv.ParseUint(string(b[:4]), 16, 16)
	switch {
	case err != nil || n > 0 && n < 5:
		return nil, b, errors.New("a packet of the push has no proper length")
	case n == 0:
		return nil, b[4:], nil
	case uint64(len(b)) < n:
		return nil, b, ErrShort
	}
	return b[4:n], b[n:], nil
}

func command(line string) (Update, error) {
	old, rest, _ := strings.Cut(line, " ")
	next, ref, ok := strings.Cut(rest, " ")
	if !ok || !objectID(old) || !objectID(next) || len(old) != len(next) || !strings.HasPrefix(ref, "refs/") || strings.ContainsAny(ref, " \x00\n~^:?*[\\") || strings.Contains(ref, "..") {
		return Update{}, fmt.Errorf("the push holds something else than ref updates: %.40q", line)
	}
	return Update{Old: old, New: next, Ref: ref}, nil
}

func objectID(s string) bool {
	return (len(s) == 40 || len(s) == 64) && strings.Trim(s, "0123456789abcdef") == ""
}
