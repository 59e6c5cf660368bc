package egress

import (
	"strings"
	"testing"
)

func TestG4EntriesMatch(t *testing.T) {
	tests := []struct {
		entry, host string
		port        uint16
		want        bool
	}{
		{"a.test", "a.test", 443, true},
		{"a.test", "a.test", 22, true},
		{"a.test", "x.a.test", 443, false},
		{"A.Test.", "a.test", 443, true},
		{" \ta.test\t", "a.test", 443, true},
		{"a.test.:443", "a.test", 443, true},
		{"a.test:443", "a.test", 444, false},
		{"*.a.test", "x.y.a.test", 443, true},
		{"*.a.test", "a.test", 443, false}, // E10: the apex
		{"*.a.test", "xa.test", 443, false},
		{"*.a.test:443", "x.a.test", 8443, false},
		{"2606:4700::1", "[2606:4700:0::1]", 443, true},
		{"[2606:4700::1]:443", "[2606:4700::1]", 8443, false},
		{"8.8.8.8", "[::ffff:8.8.8.8]", 443, true},
		{"bücher.test", "xn--bcher-kva.test", 443, true},
		{"*.bücher.test", "shop.xn--bcher-kva.test", 443, true},
		{"db.test:5432+tcp", "db.test", 5432, true},
	}
	for _, tt := range tests {
		e, err := ParseAllow(tt.entry)
		if err != nil {
			t.Errorf("ParseAllow(%q): %v", tt.entry, err)
			continue
		}
		h, err := ParseHost(tt.host)
		if err != nil {
			t.Fatal(err)
		}
		if got := e.Match(h, tt.port); got != tt.want {
			t.Errorf("%q matches %s:%d: %t, want %t", tt.entry, tt.host, tt.port, got, tt.want)
		}
	}
}

func TestG4InvalidEntries(t *testing.T) {
	everywhere := []string{
		"", " ", ".", ".a.test", "a..test", "*", "*.", "a.*.test", "*a.test", "x*.a.test", "**.a.test", "*.*.a.test",
		"a.test:", "a.test:0", "a.test:abc", "a.test:70000", "a.test:0443", "a.test:+443", "a.test: 443", "a.test:443:443",
		"a.test/path", "https://a.test", "user@a.test", "ex ample.test", "8.8.8.0/24", "8.8.8.08", "*.8.8.8.8", "*.8.8.8",
		"[fe80::1%eth0]", "fe80::1%eth0", "[8.8.8.8]", "[::1]443", "db.test+tcp", "db.test:1+udp", "ａllowed.test",
	}
	for _, s := range everywhere {
		if ValidateAllow(s) == nil {
			t.Errorf("ValidateAllow(%q) finds no fault", s)
		}
		if ValidateDeny(s) == nil {
			t.Errorf("ValidateDeny(%q) finds no fault", s)
		}
	}
	for _, s := range []string{"*.com", "*.test", "*.co.uk", "*.github.io"} { // E11
		if ValidateAllow(s) == nil {
			t.Errorf("ValidateAllow(%q) finds no fault", s)
		}
		if err := ValidateDeny(s); err != nil {
			t.Errorf("ValidateDeny(%q): %v; a deny entry may be wide", s, err)
		}
	}
	if ValidateDeny("db.test:5432+tcp") == nil {
		t.Error("+tcp in a deny list is not refused")
	}
	if err := ValidateAllow("https://a.test"); err == nil || !strings.Contains(err.Error(), "https://a.test") {
		t.Errorf("the error does not name the entry: %v", err)
	}
}

func TestListFindsNearestAndPrefersTCP(t *testing.T) {
	list, err := ParseList([]string{"*.a.test", "*.b.a.test:443", "x.b.a.test", "x.b.a.test:22+tcp"}, ParseAllow)
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		host string
		port uint16
		want string
	}{
		{"x.b.a.test", 443, "x.b.a.test"},
		{"x.b.a.test", 22, "x.b.a.test:22+tcp"},
		{"y.b.a.test", 443, "*.b.a.test:443"},
		{"y.b.a.test", 80, "*.a.test"},
		{"a.test", 80, ""},
	} {
		h, _ := ParseHost(tt.host)
		e, ok := list.Find(h, tt.port)
		if e.String() != tt.want || ok != (tt.want != "") {
			t.Errorf("Find(%s:%d) = %q, %t; want %q", tt.host, tt.port, e, ok, tt.want)
		}
	}
}

func TestK35Containment(t *testing.T) {
	tests := []struct {
		entry   string
		ceiling []string
		want    bool
	}{
		{"a.test", nil, true},
		{"a.test", []string{"a.test"}, true},
		{"a.test", []string{"a.test:443"}, false}, // every port is more than one
		{"a.test:443", []string{"a.test"}, true},
		{"a.test:443", []string{"a.test:443"}, true},
		{"a.test:443", []string{"a.test:80"}, false},
		{"a.test", []string{"*.a.test"}, false}, // the apex
		{"x.a.test", []string{"*.a.test"}, true},
		{"*.a.test", []string{"*.a.test"}, true},
		{"*.b.a.test", []string{"*.a.test"}, true},
		{"*.a.test", []string{"*.b.a.test", "x.a.test"}, false},
		{"*.a.test:443", []string{"*.a.test:443"}, true},
		{"*.a.test", []string{"*.a.test:443"}, false},
		{"x.a.test", []string{"*.test"}, true}, // a ceiling may be as wide as it likes
		{"8.8.8.8", []string{"8.8.8.8"}, true},
		{"8.8.8.8", []string{"*.8.test"}, false},
		{"db.a.test:5432+tcp", []string{"*.a.test"}, false}, // raw is more than TLS
		{"db.a.test:5432+tcp", []string{"*.a.test:5432+tcp"}, true},
		{"db.a.test:5432", []string{"*.a.test:5432+tcp"}, true},
	}
	for _, tt := range tests {
		err := CheckCeiling(tt.entry, tt.ceiling)
		if (err == nil) != tt.want {
			t.Errorf("CheckCeiling(%q, %q) = %v, want allowed %t", tt.entry, tt.ceiling, err, tt.want)
		}
	}
	if err := CheckCeiling("db.a.test:5432+tcp", []string{"*.a.test"}); err == nil || !strings.Contains(err.Error(), "+tcp") {
		t.Errorf("the error does not say what the ceiling lacks: %v", err)
	}
	if CheckCeiling("a.test", []string{"a..test"}) == nil {
		t.Error("a broken ceiling lets everything through")
	}
}

// FuzzEntry holds the matcher to a second, naive one: never wider, and a bare
// grammar error never matches.
func FuzzEntry(f *testing.F) {
	for _, s := range [][2]string{{"*.a.test:443", "x.a.test"}, {"a.test", "A.Test."}, {"[2606::1]:1+tcp", "[2606::1]"}, {"8.8.8.8", "[::ffff:808:808]"}, {"bücher.test", "xn--bcher-kva.test"}} {
		f.Add(s[0], s[1], uint16(443))
	}
	f.Fuzz(func(t *testing.T, entry, host string, port uint16) {
		e, err := ParseAllow(entry)
		h, herr := ParseHost(host)
		if herr == nil {
			if again, err := ParseHost(h.String()); err != nil || again != h {
				t.Fatalf("host %q is not stable: %q, %v", host, h, err)
			}
		}
		if err != nil || herr != nil {
			return
		}
		list := NewList(e)
		_, found := list.Find(h, port)
		if found != e.Match(h, port) {
			t.Fatalf("list and entry %q differ on %s:%d", e, h, port)
		}
		if found && !naiveMatch(entry, h.String(), port) {
			t.Fatalf("entry %q matches %s:%d, the naive matcher says no", entry, h, port)
		}
		if e.Covers(e) != true {
			t.Fatalf("entry %q does not cover itself", entry)
		}
	})
}

// naiveMatch matches by text alone. It knows no Unicode and no addresses: there
// it says yes and leaves the question to the table tests.
func naiveMatch(entry, host string, port uint16) bool {
	e := strings.ToLower(strings.Trim(entry, " \t"))
	e = strings.TrimSuffix(e, "+tcp")
	if !isASCII(e) || strings.Count(e, ":") > 1 || strings.ContainsAny(host, "[") || strings.HasPrefix(e, "[") {
		return true
	}
	name, p, hasPort := strings.Cut(e, ":")
	name = strings.TrimRight(name, ".")
	if hasPort {
		digits := ""
		for n := int(port); n > 0; n /= 10 {
			digits = string(rune('0'+n%10)) + digits
		}
		if p != digits {
			return false
		}
	}
	if suffix, ok := strings.CutPrefix(name, "*"); ok {
		return strings.HasSuffix("x"+host, suffix) && len(host) > len(suffix)
	}
	return name == host
}

func TestK21RawPorts(t *testing.T) {
	got, err := RawPorts([]string{"db.test:5432+tcp", "DB.test.:5432+tcp", "git.test:22+tcp", "*.x.test:9+tcp", "a.test:443+tcp", "a.test:53+tcp", "plain.test:7", "bro..ken:1+tcp"})
	if err != nil || len(got) != 2 || got[5432].String() != "db.test" || got[22].String() != "git.test" {
		t.Errorf("%v, %v", got, err)
	}
	if _, err := RawPorts([]string{"a.test:22+tcp", "b.test:22+tcp"}); err == nil || !strings.Contains(err.Error(), "a.test") || !strings.Contains(err.Error(), "b.test:22+tcp") {
		t.Errorf("two hosts on one port: %v", err)
	}
}
