package control

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/wardyn/nomad-driver-wardyn/internal/cast"
	"github.com/wardyn/nomad-driver-wardyn/runner/egress"
)

// reporter is a recorder in a sandbox of these tests, behind its sidecar.
type reporter struct {
	b     *bench
	id    uuid.UUID
	e     egress.Endpoint
	files string
}

func newReporter(t *testing.T) *reporter {
	r := &reporter{b: newBench(t), id: uuid.New(), files: filesDir(t)}
	r.open(t)
	return r
}

func (r *reporter) owner() Run {
	return Run{ID: r.id, FilesDir: r.files, Secrets: []string{"planted-secret-1"}, Reported: &Reported{Title: "web/agent"}}
}

func (r *reporter) open(t *testing.T) {
	t.Helper()
	if err := r.b.Prepare(r.owner()); err != nil {
		t.Fatal(err)
	}
	var err error
	if r.e, err = r.b.Open(t.Context(), r.id, proxyConfig(t, r.id), runNet); err != nil {
		t.Fatal(err)
	}
}

// put sends a body and returns status and answer.
func (r *reporter) put(t *testing.T, contentType, body string) (int, string) {
	t.Helper()
	hc := http.Client{Timeout: time.Minute, Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", socketOf(r.e))
		},
	}}
	req, err := http.NewRequestWithContext(t.Context(), "PUT", "http://control"+egress.PathRecording+"/"+r.id.String(), strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+tokenOf(r.id))
	req.Header.Set("Content-Type", contentType)
	resp, err := hc.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, _ := io.ReadAll(resp.Body)
	return resp.StatusCode, string(b)
}

// piece sends a piece of a session; the answer is to be want.
func (r *reporter) piece(t *testing.T, offset int, body, want string) {
	t.Helper()
	kind := fmt.Sprintf("application/x-asciicast; session=0123abcd; offset=%d", offset)
	if status, got := r.put(t, kind, body); fmt.Sprint(status, " ", got) != want {
		t.Errorf("from %d: %d %s, want %s", offset, status, got, want)
	}
}

// kept are the run's recordings, and the text of the only one.
func (r *reporter) kept(t *testing.T) ([]cast.Recording, string) {
	t.Helper()
	list, err := cast.List(r.files, r.id.String()+".reported-")
	if err != nil || len(list) == 0 {
		t.Fatalf("%v, %v", list, err)
	}
	var out strings.Builder
	if err := cast.OpenParts(r.files, list[0].Name, func(_ int, in io.Reader) error { return cast.Plain(&out, in) }); err != nil {
		t.Fatal(err)
	}
	return list, out.String()
}

const castHead = `{"version": 2, "width": 100, "height": 30}` + "\n"

// K36, W16: a recording arrives while it is made, is masked before it is
// written, and says whose word it is. A piece that comes twice is kept once,
// and a restart of the control plane loses none.
func TestK36W16ReportedRecordingInPieces(t *testing.T) {
	r := newReporter(t)
	first := castHead + `[0.5, "o", "one planted-sec"]` + "\n"
	second := `[1.0, "o", "ret-1 two\r\n"]` + "\n" + `[1.5, "i", "typed planted-secret-1\r"]` + "\n" + `[1.5, "m", "planted-secret-1"]` + "\n"
	third := `[2.5, "o", "three"]` + "\n" + `[3.0, "m", "exit 3"]` + "\n"
	at := func(n int) string { return fmt.Sprintf(`200 {"offset":%d}`, n) }
	r.piece(t, 0, first, at(len(first)))
	r.piece(t, 0, first+second, at(len(first+second))) // its answer was lost
	r.piece(t, len(first+second)+7, third, fmt.Sprintf(`409 {"error":%q,"offset":%d}`, errGap.Error(), len(first+second)))
	if _, got := r.kept(t); !strings.Contains(got, "one <secret-hidden> two") {
		t.Errorf("while it is made: %q", got)
	}
	r.b.restart(t)
	var err error
	if r.e, err = r.b.Resume(t.Context(), r.owner()); err != nil {
		t.Fatal(err)
	}
	r.piece(t, len(first+second), third, at(len(first+second+third)))
	list, got := r.kept(t)
	want := "one <secret-hidden> two\n[<secret-hidden>]\n[the recorder was interrupted here]\nthree\n[exit 3]\n"
	if x := list[0]; got != want || x.Made != cast.MadeSandbox || x.End != "exit 3" || x.Title != "reported by the sandbox: web/agent" {
		t.Errorf("%+v\n%q", x, got)
	}
}

// W9: all of a recording in one request, as a recorder may send it that waits for
// the end.
func TestW9ReportedRecordingAtOnce(t *testing.T) {
	r := newReporter(t)
	if status, got := r.put(t, "application/x-asciicast", castHead+`[0.5, "o", "all"]`+"\n"); status != 200 {
		t.Errorf("%d %s", status, got)
	}
	if list, got := r.kept(t); got != "all" || list[0].Bytes == 0 {
		t.Errorf("%+v %q", list, got)
	}
}

// What is no recording is refused, and one run cannot fill a node's disk or its
// table of open files.
func TestW14ReportedRecordingsAreBounded(t *testing.T) {
	r := newReporter(t)
	for kind, want := range map[string]int{
		"": 415, "text/plain": 415, "application/x-asciicast; session=x; offset=0": 415,
		"application/x-asciicast; session=../../etc; offset=0": 415, "application/x-asciicast; session=0123abcd; offset=-1": 415,
		"application/x-asciicast": 422,
	} {
		if status, got := r.put(t, kind, "nothing of the kind\n"); status != want {
			t.Errorf("%q: %d %s, want %d", kind, status, got, want)
		}
	}
	for i := range maxReported + 1 {
		want := 200
		if i == maxReported {
			want = 507
		}
		if status, got := r.put(t, fmt.Sprintf("application/x-asciicast; session=%08x; offset=0", i), castHead); status != want {
			t.Fatalf("recording %d: %d %s", i, status, got)
		}
	}
}

// They are as many when each comes at once and is closed.
func TestW14ReportedRecordingsAtOnceAreBounded(t *testing.T) {
	r := newReporter(t)
	for i := range maxReported + 1 {
		want := 200
		if i == maxReported {
			want = 507
		}
		if status, got := r.put(t, "application/x-asciicast", castHead); status != want {
			t.Fatalf("recording %d: %d %s", i, status, got)
		}
	}
}

// Those that were begun while there was room do not outgrow it together.
func TestW14ReportedRecordingsGrowWithinTheirRoom(t *testing.T) {
	r := newReporter(t)
	owner := r.owner()
	owner.Reported.Limit = cast.LeastLimit
	if err := r.b.Prepare(owner); err != nil {
		t.Fatal(err)
	}
	at := func(i, offset int) string {
		return fmt.Sprintf("application/x-asciicast; session=%08x; offset=%d", i, offset)
	}
	for i := range maxReported {
		if status, got := r.put(t, at(i, 0), castHead); status != 200 {
			t.Fatalf("recording %d: %d %s", i, status, got)
		}
	}
	text := strings.Repeat(fmt.Sprintf("[1.0, \"o\", %q]\n", strings.Repeat("x", 16<<10)), 60)
	refused := 0
	for i := range maxReported {
		if status, got := r.put(t, at(i, len(castHead)), text); status == 507 {
			refused++
		} else if status != 200 {
			t.Fatalf("recording %d: %d %s", i, status, got)
		}
	}
	taken, err := cast.Size(r.files, r.id.String()+".reported-")
	if most := int64(reportedTogether*cast.LeastLimit + 2*roomEvery); err != nil || taken > most || refused == 0 || refused > maxReported-reportedTogether {
		t.Errorf("%d bytes of %d at most, %d refused, %v", taken, most, refused, err)
	}
}
