package egress

import (
	"strings"
	"testing"
)

func TestG2ParseHost(t *testing.T) {
	long := strings.Repeat("d", 49)
	name253 := strings.Repeat(long+".", 5) + "eee"
	good := map[string]string{
		"allowed.test":                    "allowed.test",
		"EVIL.Test..":                     "evil.test", // E1, E3
		"a_b.test":                        "a_b.test",  // E14
		"r3---sn-x.video.test":            "r3---sn-x.video.test",
		"0xg":                             "0xg",
		"1.2.3.4.nip.test":                "1.2.3.4.nip.test",
		"8.8.8.8.":                        "8.8.8.8",
		"[2606:4700:4700:0:0:0:0:1111]":   "[2606:4700:4700::1111]",
		"[::ffff:808:808]":                "8.8.8.8", // E30
		"xn--example-.test":               "xn--example-.test",
		strings.Repeat("l", 63) + ".test": strings.Repeat("l", 63) + ".test",
		name253:                           name253,
	}
	for in, want := range good {
		h, err := ParseHost(in)
		if err != nil || h.String() != want {
			t.Errorf("ParseHost(%q) = %q, %v; want %q", in, h, err, want)
		}
		if again, err := ParseHost(h.String()); err != nil || again != h {
			t.Errorf("ParseHost(%q) is not stable: %q, %v", in, again, err)
		}
	}
	bad := []string{
		"", ".", "..", ".a.test", "a..test", "a b.test", "a.test/", "a.test\\", "a.test:443", "a@b.test", "a%2etest",
		"evil.test\x00.allowed.test", "*.a.test", "a.test?x", "bücher.test", "１２７.0.0.1", "allo\u00adwed.test",
		"2130706433", "0x7f000001", "0X7F000001", "0x7f.0.0.1", "0177.0.0.1", "127.1", "127.0.0.01", "256.1.1.1", "1.2.3.4.5",
		"a.test.0x10", "a.test.123", "0", "0x", "a.0x", // E17
		"[allowed.test]", "[8.8.8.8]", "[[::1]]", "[::1", "::1", "[::1%lo]", "[fe80::1%25eth0]", "[]", "[::1]x", // E2, E15, E16
		strings.Repeat("l", 64) + ".test", name253 + "e",
	}
	for _, in := range bad {
		if h, err := ParseHost(in); err == nil {
			t.Errorf("ParseHost(%q) = %q, want an error", in, h)
		}
	}
}

func TestG3ParsePort(t *testing.T) {
	for in, want := range map[string]uint16{"1": 1, "443": 443, "65535": 65535} {
		if got, err := ParsePort(in); err != nil || got != want {
			t.Errorf("ParsePort(%q) = %d, %v", in, got, err)
		}
	}
	for _, in := range []string{"", "0", "0443", "65536", "99999", "100000", "+443", "-1", " 443", "443 ", "https", "4_3", "４"} {
		if got, err := ParsePort(in); err == nil {
			t.Errorf("ParsePort(%q) = %d, want an error", in, got)
		}
	}
}

func TestAuthorityForms(t *testing.T) {
	a, err := ParseAuthority("[2606:4700::1]:8443", 0)
	if err != nil || a.String() != "[2606:4700::1]:8443" || a.HostHeader(443) != "[2606:4700::1]:8443" || a.HostHeader(8443) != "[2606:4700::1]" {
		t.Errorf("got %q, %v", a, err)
	}
	if a, err := ParseAuthority("a.test:", 80); err != nil || a.Port != 80 {
		t.Errorf("an empty port with a default: %v, %v", a, err)
	}
	for _, s := range []string{"a.test", "a.test:", "2001:db8::1:443", "[::1]"} {
		if a, err := ParseAuthority(s, 0); err == nil {
			t.Errorf("ParseAuthority(%q, 0) = %v, want an error", s, a)
		}
	}
}

func TestRegistrable(t *testing.T) {
	for in, want := range map[string]string{
		"a.b.example.co.uk": "example.co.uk", "example.co.uk": "example.co.uk", "x.tenant.github.io": "tenant.github.io",
		"a.b.test": "b.test", "intranet": "intranet", "co.uk": "co.uk", "8.8.8.8": "8.8.8.8",
	} {
		h, err := ParseHost(in)
		if err != nil || h.Registrable() != want {
			t.Errorf("%s: %q, %v; want %q", in, h.Registrable(), err, want)
		}
	}
}
