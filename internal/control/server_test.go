package control

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/wardyn/nomad-driver-wardyn/runner/egress"
)

func TestK9ConfigurationOverTheSocket(t *testing.T) {
	b, id := newBench(t), uuid.New()
	e := b.open(t, id, "", nil)
	raw, err := sidecar(t, e, "").Config(t.Context()) // it has no token yet
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Contains(raw, proxyConfig(t, id)) {
		t.Errorf("%s does not hold the bytes it was opened with", raw)
	}
	c, node, err := egress.ParseSidecarConfig(raw)
	if err != nil || c.RunID != id.String() || c.RunToken != tokenOf(id) {
		t.Errorf("%+v, %v", c, err)
	}
	if node.Listen != "10.213.0.2" || !slices.Equal(node.Own, []string{"192.0.2.1"}) {
		t.Errorf("node %+v", node)
	}
	b.node.Own = nil // what the node knows is asked at each fetch
	if raw, _ = sidecar(t, e, "").Config(t.Context()); bytes.Contains(raw, []byte("192.0.2.1")) {
		t.Error("an answer of long ago")
	}
}

// TestOwnAddressesAreAskedForEachTime: a sidecar learns what the node gained
// since, with its token, and its sandbox does not.
func TestOwnAddressesAreAskedForEachTime(t *testing.T) {
	b, id := newBench(t), uuid.New()
	e := b.open(t, id, "", nil)
	for _, want := range [][]string{{"192.0.2.1"}, {"192.0.2.1", "44.44.44.1"}, nil} {
		b.node.Own = want
		if got, err := sidecar(t, e, tokenOf(id)).Own(t.Context()); err != nil || !slices.Equal(got, want) {
			t.Errorf("%v, %v, want %v", got, err, want)
		}
	}
	if got, err := sidecar(t, e, "").Own(t.Context()); err == nil {
		t.Errorf("without a token: %v", got)
	}
	resp, err := sidecar(t, e, tokenOf(id)).Do(t.Context(), "GET", egress.PathOwn, nil, "", 0)
	if err != nil {
		t.Fatal(err)
	}
	if resp.Body.Close(); resp.StatusCode != 403 {
		t.Errorf("a sandbox that asks is answered %s", resp.Status)
	}
}

func TestOpenRefusesWhatTheSidecarWould(t *testing.T) {
	b, id := newBench(t), uuid.New()
	for name, raw := range map[string][]byte{
		"broken": []byte("{"), "empty": []byte("{}"), "another run's": proxyConfig(t, uuid.New()),
	} {
		if _, err := b.Open(t.Context(), id, raw, runNet); err == nil {
			t.Errorf("%s configuration: opened", name)
		} else if strings.Contains(err.Error(), "token-of-") {
			t.Errorf("invariant 3: the error holds the token: %v", err)
		}
	}
	if runs := b.Runs(); len(runs) != 0 {
		t.Errorf("known runs %v", runs)
	}
	if _, err := os.Stat(b.dir.RunDir(id)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a folder was made: %v", err)
	}
}

func TestD7OnlyTheSidecarReachesTheSocket(t *testing.T) {
	b, id := newBench(t), uuid.New()
	e := b.open(t, id, "", nil)
	for p, want := range map[string]struct {
		mode os.FileMode
		uid  uint32
	}{
		b.dir.RunRoot():  {os.ModeDir | 0o700, 0},
		b.dir.RunDir(id): {os.ModeDir | 0o700, 0},
		filepath.Join(b.dir.RunDir(id), configName): {0o600, 0},
		e.Dir:       {os.ModeDir | 0o700, SidecarUID},
		socketOf(e): {os.ModeSocket | 0o600, SidecarUID},
	} {
		fi, err := os.Lstat(p)
		if err != nil {
			t.Fatal(err)
		}
		if st := fi.Sys().(*syscall.Stat_t); fi.Mode() != want.mode || st.Uid != want.uid {
			t.Errorf("%s: mode %v uid %d, want %v and %d", p, fi.Mode(), st.Uid, want.mode, want.uid)
		}
	}
	if in, _ := os.ReadDir(e.Dir); len(in) != 1 {
		t.Errorf("the mounted folder holds %v, want the socket alone", in)
	}

	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), exe)
	cmd.Env = append(os.Environ(), asSidecar+"="+e.Dir)
	cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("as a sidecar: %v\n%s", err, out)
	}
}

func TestTokenOnEverythingButTheConfiguration(t *testing.T) {
	b, id, other := newBench(t), uuid.New(), uuid.New()
	e := b.open(t, id, "", nil)
	b.open(t, other, "", nil)
	paths := map[string]string{
		egress.PathReady: "POST", egress.PathDecisions: "POST", egress.PathRenew: "POST",
		egress.PathApprovals: "POST", egress.PathInjection + "/" + uuid.NewString(): "GET", egress.PathMint: "POST",
		egress.PathRecording + "/x": "PUT", "/": "GET", "/nowhere": "GET",
	}
	for path, method := range paths {
		for _, token := range []string{"", "Bearer", "Bearer ", tokenOf(id), "Bearer " + tokenOf(other), "Bearer " + tokenOf(id) + "x", "bearer " + tokenOf(id)} {
			status, body := request(t, e, method, path, token, "{}")
			if status != 401 || strings.Contains(body, "token-of-") {
				t.Errorf("%s %s with %q: %d %s", method, path, token, status, body)
			}
		}
		if status, _ := request(t, e, method, path, "Bearer "+tokenOf(id), "{}"); status == 401 {
			t.Errorf("%s %s with the right token: 401", method, path)
		}
	}
	if status, _ := request(t, e, "GET", egress.PathConfig, "", ""); status != 200 {
		t.Errorf("the configuration: %d", status)
	}
}

func TestReady(t *testing.T) {
	b, id := newBench(t), uuid.New()
	e := b.open(t, id, "", nil)
	select {
	case <-e.Ready:
		t.Fatal("ready before the sidecar said so")
	default:
	}
	c := sidecar(t, e, tokenOf(id))
	for range 2 {
		if err := c.Ready(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	<-e.Ready
}

func TestP62Renewal(t *testing.T) {
	b, id := newBench(t), uuid.New()
	c := sidecar(t, b.open(t, id, "", nil), tokenOf(id))
	until, err := c.Renew(t.Context())
	if err != nil || time.Until(until) < tokenLife/2 {
		t.Errorf("good until %v, %v", until, err)
	}
	if err := c.Ready(t.Context()); err != nil { // with the renewed token
		t.Error(err)
	}
}

func TestWhatIsNotThereSaysSo(t *testing.T) {
	b, id := newBench(t), uuid.New()
	e := b.open(t, id, "", nil)
	for _, c := range []struct {
		method, path, body string
		status             int
		want               string
	}{
		{"GET", egress.PathApprovals + "/" + id.String(), "", 404, "no such approval"},
		{"GET", egress.PathApprovals + "/x", "", 404, "no such path"},
		{"GET", egress.PathInjection + "/" + id.String(), "", 404, "no such grant"},
		{"GET", egress.PathInjection, "", 404, "no such path"},
		{"POST", egress.PathMint, "{}", 404, "no such grant"},
		{"PUT", egress.PathRecording + "/" + id.String(), strings.Repeat("x", 1<<20), 403, "record = true"},
		{"PUT", egress.PathRecording + "/" + uuid.NewString(), "", 404, "no such run"},
		{"GET", "/api/v1/internal/approvalsx", "", 404, "no such path"},
		{"GET", "/api/v1/internal/config/..", "", 404, "no such path"},
		{"POST", egress.PathConfig, "{}", 405, "want GET"},
		{"GET", egress.PathDecisions, "", 405, "want POST"},
	} {
		status, body := request(t, e, c.method, c.path, "Bearer "+tokenOf(id), c.body)
		if status != c.status || !strings.Contains(body, c.want) || !strings.HasPrefix(body, `{"error":`) {
			t.Errorf("%s %s: %d %s, want %d %q", c.method, c.path, status, body, c.status, c.want)
		}
	}
}

func TestLimits(t *testing.T) {
	b, id := newBench(t), uuid.New()
	e := b.open(t, id, "", nil)
	// More records than a sidecar was told to send would be as many lines of the log.
	if status, _ := request(t, e, "POST", egress.PathDecisions, "Bearer "+tokenOf(id), strings.Repeat("x\n", batch+1)); status != 413 {
		t.Errorf("%d records: %d", batch+1, status)
	}
	if status, _ := request(t, e, "POST", egress.PathDecisions, "Bearer "+tokenOf(id), `{"cause":"`+strings.Repeat("x", maxBatch)+`"}`); status != 413 {
		t.Errorf("a record too big: %d", status)
	}
	if status, _ := request(t, e, "PUT", egress.PathRecording+"/"+id.String(), "Bearer "+tokenOf(id), strings.Repeat("x", maxDrain)); status != 403 {
		t.Errorf("an upload nobody wants: %d", status)
	}
	// Of a head too big the rest is not read, and the connection may be reset
	// before the answer is: what counts is that it was not served.
	head := "POST " + egress.PathReady + " HTTP/1.1\r\nHost: c\r\nAuthorization: Bearer " + tokenOf(id) + "\r\n"
	for pad, served := range map[int]bool{100: true, 2 * maxHeader: false} {
		c, err := net.Dial("unix", socketOf(e))
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(c, "%sX-Pad: %s\r\nContent-Length: 0\r\n\r\n", head, strings.Repeat("x", pad))
		line, _ := bufio.NewReader(c).ReadString('\n')
		if got := strings.Contains(line, " 204 "); got != served {
			t.Errorf("a head with %d bytes of padding: %q", pad, line)
		}
		c.Close()
	}
}

// A probe's sandbox is nobody's task: it is served, and known while it is open.
func TestRunThatNobodyPrepared(t *testing.T) {
	b, id := newBench(t), uuid.New()
	e, err := b.Open(t.Context(), id, proxyConfig(t, id), runNet)
	if err != nil {
		t.Fatal(err)
	}
	post(t, sidecar(t, e, tokenOf(id)), decision(id, 1))
	if s, ok := b.Summary(id); !ok || s.Denied != 1 {
		t.Errorf("summary %+v, %v", s, ok)
	}
	if err := b.Close(id); err != nil {
		t.Fatal(err)
	}
	if runs := b.Runs(); len(runs) != 0 {
		t.Errorf("known runs %v", runs)
	}
	if err := b.dir.RemoveRunDir(id); err != nil {
		t.Fatal(err)
	}
}

func TestOpenReplacesTheConfiguration(t *testing.T) {
	b, id := newBench(t), uuid.New()
	e := b.open(t, id, "", nil)
	if err := sidecar(t, e, tokenOf(id)).Ready(t.Context()); err != nil {
		t.Fatal(err)
	}
	raw := bytes.ReplaceAll(proxyConfig(t, id), []byte("token-of-"), []byte("fresh-token-of-"))
	e, err := b.Open(t.Context(), id, raw, runNet)
	if err != nil {
		t.Fatal(err)
	}
	select {
	case <-e.Ready:
		t.Error("the new sidecar is ready before it said so")
	default:
	}
	if err := sidecar(t, e, tokenOf(id)).Ready(t.Context()); err == nil {
		t.Error("the old token is good still")
	}
	if err := sidecar(t, e, "fresh-"+tokenOf(id)).Ready(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestSocketPathTooLong(t *testing.T) {
	if _, err := listen("/"+strings.Repeat("x", longestSocket), socketName, "unix", 0); err == nil || !strings.Contains(err.Error(), "data_dir") {
		t.Errorf("%v, want an error that names data_dir", err)
	}
}

func TestSomethingElseWhereTheFolderBelongs(t *testing.T) {
	b, id := newBench(t), uuid.New()
	if _, err := b.dir.MakeRunDir(id); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(t.TempDir(), filepath.Join(b.dir.RunDir(id), folderName)); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Open(t.Context(), id, proxyConfig(t, id), runNet); err == nil {
		t.Error("a link was followed")
	}
	if err := b.dir.RemoveRunDir(id); err != nil {
		t.Fatal(err)
	}
}

// post delivers a record as the sidecar does.
func post(t *testing.T, c interface {
	Decisions(context.Context, []byte) error
}, l egress.DecisionLog) {

	t.Helper()
	if err := c.Decisions(t.Context(), encode(t, l)); err != nil {
		t.Fatal(err)
	}
}
