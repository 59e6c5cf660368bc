package gitproto

import (
	"errors"
	"fmt"
	"strings"
	"testing"
)

func TestParse(t *testing.T) {
	good := map[string]Request{
		"GET Acme/App.git/info/refs?service=git-upload-pack":      {"acme/app", "info/refs", UploadPack},
		"GET acme/app/info/refs?service=git-receive-pack":         {"acme/app", "info/refs", ReceivePack},
		"POST acme/app.git/git-upload-pack":                       {"acme/app", UploadPack, UploadPack},
		"POST acme/my.app-2_x/git-receive-pack":                   {"acme/my.app-2_x", ReceivePack, ReceivePack},
		"GET acme/app.wiki.git/info/refs?service=git-upload-pack": {"acme/app.wiki", "info/refs", UploadPack}, // E133: a repository of its own
	}
	for in, want := range good {
		method, rest, _ := strings.Cut(in, " ")
		route, query, _ := strings.Cut(rest, "?")
		if got, err := Parse(method, route, query); err != nil || got != want {
			t.Errorf("%s: %+v, %v", in, got, err)
		}
	}
	for _, in := range []string{
		"GET acme/app/info/refs",
		"GET acme/app/info/refs?service=git-upload-archive",
		"GET acme/app/info/refs?service=git-upload-pack&service=git-receive-pack", // E128
		"GET acme/app/info/refs?service=git-upload-pack&x=1",
		"POST acme/app/info/refs?service=git-upload-pack",
		"GET acme/app/git-upload-pack",
		"POST acme/app/git-upload-pack?x",
		"GET acme/app/HEAD",
		"GET acme/app/../other/info/refs?service=git-upload-pack",
		"GET acme/app.git.git/info/refs?service=git-upload-pack", // E133
		"GET acme/.git/info/refs?service=git-upload-pack",
		"GET acme//info/refs?service=git-upload-pack",
		"GET /app/info/refs?service=git-upload-pack",
		"GET -x/app/info/refs?service=git-upload-pack",
		"GET acme/a%2fb/info/refs?service=git-upload-pack",
		"GET acme",
		"",
	} {
		method, rest, _ := strings.Cut(in, " ")
		route, query, _ := strings.Cut(rest, "?")
		if got, err := Parse(method, route, query); err == nil {
			t.Errorf("%s: %+v, want an error", in, got)
		}
	}
	if _, err := Parse("POST", "acme/app.git/info/lfs/objects/batch", ""); !errors.Is(err, ErrLFS) { // E132
		t.Errorf("LFS: %v", err)
	}
}

func line(s string) string { return fmt.Sprintf("%04x%s", len(s)+4, s) }

var (
	zero = strings.Repeat("0", 40)
	one  = strings.Repeat("1", 40)
	two  = strings.Repeat("2", 64)
)

func TestE131ParsePush(t *testing.T) {
	push := line("shallow "+one+"\n") + line(zero+" "+one+" refs/heads/a\x00 report-status agent=git/2\n") + line(one+" "+zero+" refs/heads/b\n") + "0000PACK"
	got, err := ParsePush([]byte(push))
	if err != nil || len(got) != 2 || got[0].Ref != "refs/heads/a" || got[0].Delete() || got[1].Ref != "refs/heads/b" || !got[1].Delete() {
		t.Fatalf("%+v, %v", got, err)
	}
	for n := range len(push) - len("PACK") {
		if _, err := ParsePush([]byte(push[:n])); !errors.Is(err, ErrShort) {
			t.Fatalf("the first %d bytes: %v", n, err)
		}
	}
	if got, err := ParsePush([]byte("0000")); err != nil || len(got) != 0 {
		t.Errorf("a probe: %v, %v", got, err)
	}
	if got, err := ParsePush([]byte(line(two+" "+two+" refs/heads/x") + "0000")); err != nil || len(got) != 1 {
		t.Errorf("sha256: %v, %v", got, err)
	}
	for _, bad := range []string{
		"xxxx", "0001", "0004", line("push-cert\x00 x") + "0000", line(zero+" "+one) + "0000", line(zero+" "+two+" refs/heads/a") + "0000",
		line(zero+" "+one+" HEAD") + "0000", line(zero+" "+one+" refs/heads/../x") + "0000", line(zero+" "+one+" refs/heads/a b") + "0000", line("") + "0000",
	} {
		if got, err := ParsePush([]byte(bad)); err == nil || errors.Is(err, ErrShort) {
			t.Errorf("%q: %+v, %v", bad, got, err)
		}
	}
}

func FuzzParsePush(f *testing.F) {
	f.Add([]byte(line(zero+" "+one+" refs/heads/a\x00caps\n") + "0000"))
	f.Fuzz(func(t *testing.T, b []byte) {
		updates, err := ParsePush(b)
		for _, u := range updates {
			if err != nil || !strings.Contains(string(b), u.Ref) || !strings.HasPrefix(u.Ref, "refs/") {
				t.Fatalf("%q: %+v, %v", b, u, err)
			}
		}
	})
}

// TestRefusal: a report has a line for each ref, and no packet of it is larger
// than a client takes.
func TestRefusal(t *testing.T) {
	long := "refs/heads/" + strings.Repeat("x", 65000)
	for _, caps := range []string{"report-status", "report-status side-band-64k"} {
		zero := strings.Repeat("0", 40)
		line := zero + " " + zero + " refs/heads/a\x00 " + caps
		got := Capabilities(appendPacket(nil, line))
		b := Refusal(got, []Update{{Ref: "refs/heads/a"}, {Ref: long}}, strings.Repeat("why ", 500), "because\n")
		var bands [3]string
		for {
			p, rest, err := packet(b)
			if err != nil || len(p) > maxLine {
				t.Fatalf("%s: a packet of %d bytes, %v", caps, len(p), err)
			}
			b = rest
			switch {
			case p == nil:
			case strings.Contains(caps, "side-band-64k"):
				bands[p[0]] += string(p[1:])
				continue
			default:
				bands[1] += string(appendPacket(nil, string(p)))
				continue
			}
			break
		}
		if len(b) != 0 || (bands[2] == "because\n") != strings.Contains(caps, "side-band") {
			t.Errorf("%s: text %q, %d bytes behind the end", caps, bands[2], len(b))
		}
		if !strings.HasPrefix(bands[1], "000eunpack ok\n") || !strings.Contains(bands[1], "ng refs/heads/a why ") || !strings.Contains(bands[1], "ng "+long+" why ") {
			t.Errorf("%s: %.80q", caps, bands[1])
		}
	}
	if len(Capabilities([]byte("0000"))) != 0 || len(Capabilities([]byte("zz"))) != 0 {
		t.Error("capabilities of no command")
	}
}
