package runner

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// checkSource asserts what a source is told: "" means allowed, anything else
// is a part of the refusal.
func checkSource(t *testing.T, src, want string) {
	t.Helper()
	err := ValidateMountSource(src)
	switch {
	case want == "" && err != nil:
		t.Errorf("%q refused: %v", src, err)
	case want != "" && err == nil:
		t.Errorf("%q allowed, want a refusal that says %q", src, want)
	case want != "" && !strings.Contains(err.Error(), want):
		t.Errorf("%q refused with %q, want it to say %q", src, err, want)
	case want != "" && !errors.Is(err, ErrDenied) && !errors.Is(err, ErrInvalid):
		t.Errorf("%q: %v wraps neither ErrDenied nor ErrInvalid", src, err)
	}
}

func TestT38DeniedSources(t *testing.T) {
	for _, p := range deniedSourcePrefixes {
		checkSource(t, p, "is ever mounted")
		checkSource(t, p+"/below/it", "is ever mounted")
		// A name that merely begins alike is another folder.
		checkSource(t, "/srv"+p+"x", "")
	}
	checkSource(t, "/", "as a whole")
	checkSource(t, "/etcetera", "")
	checkSource(t, "/runner", "")
	for _, s := range append(slices.Clone(deniedSockets), "containerd-shim-1.sock") {
		checkSource(t, "/srv/x/"+s, "controls the host")
	}
	checkSource(t, "/srv/x/agent.sock", "")
}

func TestT39ShapeOfSources(t *testing.T) {
	for src, want := range map[string]string{
		"":             "empty",
		"srv/x":        "absolute",
		"./x":          "absolute",
		"/srv/":        "clean form",
		"/srv/../etc":  "clean form",
		"/srv//x":      "clean form",
		"/srv/./x":     "clean form",
		"/srv/a\x00b":  "NUL",
		"/srv/absent/": "clean form",
	} {
		checkSource(t, src, want)
	}
}

func TestT39LinksAreFollowed(t *testing.T) {
	dir := t.TempDir()
	plain := filepath.Join(dir, "plain")
	if err := os.Mkdir(plain, 0o755); err != nil {
		t.Fatal(err)
	}
	for link, to := range map[string]string{
		"etc": "/etc", "up": "/var", "loop": filepath.Join(dir, "loop"),
		"ok": plain, "nowhere": filepath.Join(dir, "missing"),
	} {
		if err := os.Symlink(to, filepath.Join(dir, link)); err != nil {
			t.Fatal(err)
		}
	}
	checkSource(t, plain, "")
	checkSource(t, filepath.Join(dir, "ok"), "")
	checkSource(t, filepath.Join(dir, "absent"), "") // falls back to the name
	checkSource(t, filepath.Join(dir, "etc"), "leads to /etc")
	checkSource(t, filepath.Join(dir, "etc", "ssl"), "leads to /etc/ssl")
	checkSource(t, filepath.Join(dir, "etc", "absent", "deeper"), "leads to /etc/absent/deeper")
	checkSource(t, filepath.Join(dir, "up"), "it contains")
	checkSource(t, filepath.Join(dir, "loop"), "links cannot be followed")
	checkSource(t, filepath.Join(dir, "nowhere"), "leads nowhere")
}

func TestT40AllowedTargets(t *testing.T) {
	for tgt, ok := range map[string]bool{
		"/home/agent": true, "/home/agent/x": true, "/work": true, "/work/a/b": true,
		"/workspace": true, "/workspace/x": true,
		"/workspaces": false, "/work2": false, "/home": false, "/home/agent2": false, "/": false,
		"/etc": false, "/alloc": false, "/workspace/../etc": false, "/work/": false, "work": false, "": false,
	} {
		if err := ValidateTarget(tgt); (err == nil) != ok {
			t.Errorf("target %q: %v, want allowed %v", tgt, err, ok)
		}
	}
	if err := ValidateMount(Mount{Source: t.TempDir(), Target: "/work/x"}); err != nil {
		t.Errorf("a good mount is refused: %v", err)
	}
	if err := ValidateMount(Mount{Source: "/etc", Target: "/work/x"}); !errors.Is(err, ErrDenied) {
		t.Errorf("a bad source gives %v", err)
	}
	if err := ValidateMount(Mount{Source: t.TempDir(), Target: "/usr"}); !errors.Is(err, ErrDenied) {
		t.Errorf("a bad target gives %v", err)
	}
}

func TestT41DenyUpward(t *testing.T) {
	for _, src := range []string{"/var", "/var/lib", "/usr", "/home", "/opt", "/lib"} {
		checkSource(t, src, "mounted")
	}
	for _, src := range []string{"/home/user/repo", "/home/user", "/opt/tool", "/var/tmp/x", "/usr/share/x", "/srv"} {
		checkSource(t, src, "")
	}
}

func TestT41SocketBelowTheSource(t *testing.T) {
	dir := t.TempDir()
	deep := filepath.Join(dir, "a", "b", "c")
	if err := os.MkdirAll(deep, 0o755); err != nil {
		t.Fatal(err)
	}
	checkSource(t, dir, "")
	l, err := net.Listen("unix", filepath.Join(deep, "docker.sock"))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	checkSource(t, dir, "docker.sock")
	checkSource(t, filepath.Join(dir, "a"), "docker.sock")
}

func TestT41SearchIsBoundedAndNearestFirst(t *testing.T) {
	dir := t.TempDir()
	mkdir := func(p string) {
		if err := os.MkdirAll(filepath.Join(dir, p), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	mkdir("a/deep/docker.sock")
	for i := range 10 {
		mkdir(fmt.Sprintf("a/%d", i))
	}
	// a, then its eleven entries, then what lies in deep: thirteen in all.
	if got, err := findSocket(dir, 13); err != nil || got == "" {
		t.Errorf("within the bound: %q, %v; want it found", got, err)
	}
	if got, err := findSocket(dir, 11); err != nil || got != "" {
		t.Errorf("beyond the bound: %q, %v; want nothing", got, err)
	}
	mkdir("z/docker.sock")
	if got, _ := findSocket(dir, 14); !strings.HasSuffix(got, "/z/docker.sock") {
		t.Errorf("found %q, want the one nearer to the source", got)
	}
}

func TestT42KernelFileSystems(t *testing.T) {
	table := strings.Join([]string{
		`22 1 8:1 / / rw,relatime - ext4 /dev/sda1 rw`,
		`23 22 0:21 / /proc rw - proc proc rw`,
		`24 22 0:30 / /srv/chroot\040one/proc rw,nosuid shared:5 master:1 - proc proc rw`,
		`25 22 0:31 / /srv/covered rw - sysfs sysfs rw`,
		`26 25 0:32 / /srv/covered rw - tmpfs tmpfs rw`,
	}, "\n") + "\n"
	mounts, err := parseMountinfo(table)
	if err != nil {
		t.Fatal(err)
	}
	for p, want := range map[string]string{
		"/srv/chroot one":            "/srv/chroot one/proc",
		"/srv/chroot one/proc":       "/srv/chroot one/proc",
		"/srv/chroot one/proc/sys/x": "/srv/chroot one/proc",
		"/srv/chroot one/home":       "",
		"/srv/other":                 "",
		"/srv/covered":               "", // a tmpfs lies on top
		"/srv/covered/x":             "",
	} {
		m, bad := kernelMountAt(mounts, p)
		if bad != (want != "") || bad && m.point != want {
			t.Errorf("%s: %+v, %v; want %q", p, m, bad, want)
		}
	}
	if _, err := parseMountinfo("1 2 3\n"); err == nil {
		t.Error("a broken mount table is read")
	}
}

func TestT43MountsBelow(t *testing.T) {
	below, err := MountsBelow("/")
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Contains(below, "/proc") {
		t.Errorf("mounts below / are %v, want /proc among them", below)
	}
	if below, err = MountsBelow(t.TempDir()); err != nil || len(below) != 0 {
		t.Errorf("mounts below an empty folder: %v, %v", below, err)
	}
	if _, err := MountsBelow(filepath.Join(t.TempDir(), "absent")); err == nil {
		t.Error("a folder that is not there has mounts")
	}
}

func TestK33MoreDeniedFolders(t *testing.T) {
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, "data", "runs"), 0o755); err != nil {
		t.Fatal(err)
	}
	denied := []string{filepath.Join(dir, "data")}
	for src, ok := range map[string]bool{
		dir: false, filepath.Join(dir, "data"): false, filepath.Join(dir, "data", "runs"): false,
		filepath.Join(dir, "data2"): true, "/etc": false,
	} {
		if err := ValidateMountSourceBeside(src, denied); (err == nil) != ok {
			t.Errorf("%q: %v, want allowed %v", src, err, ok)
		}
	}
	checkSource(t, filepath.Join(dir, "data"), "") // without them it is a folder like any
}
