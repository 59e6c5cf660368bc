package docker

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"reflect"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/pkg/stdcopy"

	"github.com/wardyn/nomad-driver-wardyn/runner"
)

// execEngine scripts the life of execs on an httpEngine.
type execEngine struct {
	*Runner
	stream  func(net.Conn)      // what comes on the stream; it is closed after
	inspect func() string       // the answer, a JSON object; "" is 404, "!" is 500
	stall   func(*http.Request) // in place of an answer to a start
	created atomic.Int64
}

func newExecEngine(t *testing.T) *execEngine {
	e := &execEngine{
		stream:  func(net.Conn) {},
		inspect: func() string { return `{"Running":false,"ExitCode":0,"Pid":7}` },
	}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /containers/{ref}/exec", func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusCreated)
		fmt.Fprintf(w, `{"Id":"%d"}`, e.created.Add(1))
	})
	mux.HandleFunc("POST /exec/{id}/start", func(w http.ResponseWriter, req *http.Request) {
		var o container.ExecStartOptions
		if err := json.NewDecoder(req.Body).Decode(&o); err != nil || o.Detach {
			return
		}
		if e.stall != nil {
			e.stall(req)
			return
		}
		conn := upgrade(t, w)
		defer conn.Close()
		e.stream(conn)
	})
	mux.HandleFunc("POST /exec/{id}/resize", func(http.ResponseWriter, *http.Request) {})
	mux.HandleFunc("GET /exec/{id}/json", func(w http.ResponseWriter, _ *http.Request) {
		switch body := e.inspect(); body {
		case "":
			http.Error(w, `{"message":"No such exec instance"}`, http.StatusNotFound)
		case "!":
			http.Error(w, `{"message":"server error"}`, http.StatusInternalServerError)
		default:
			io.WriteString(w, body)
		}
	})
	e.Runner = httpEngine(t, mux)
	return e
}

func (e *execEngine) run(t *testing.T, spec runner.ExecSpec) result {
	t.Helper()
	s, err := e.ExecStream(soon(t), scriptedRef, spec)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	return drain(s, nil)
}

var anyExec = runner.ExecSpec{Argv: []string{"x"}}

// TestB5ExitCodes: only a code that the engine states is one.
func TestB5ExitCodes(t *testing.T) {
	e := newExecEngine(t)
	for _, c := range []struct {
		name    string
		answers []string // the last one repeats
		code    int
		err     error
		text    string
	}{
		{"zero", []string{`{"Running":false,"ExitCode":0}`}, 0, nil, ""},
		{"seven", []string{`{"Running":false,"ExitCode":7}`}, 7, nil, ""},
		{"null", []string{`{"Running":false,"ExitCode":null,"Pid":0}`}, 0, nil, "never started"},
		{"runs on for a moment", []string{`{"Running":true,"ExitCode":null}`, `{"Running":true,"ExitCode":0}`, `{"Running":false,"ExitCode":3}`}, 3, nil, ""},
		{"engine away for a moment", []string{"!", "!", `{"Running":false,"ExitCode":4}`}, 4, nil, ""},
		{"forgotten", []string{""}, 0, errLost, "exit code is lost"},
	} {
		e.inspect = func() string {
			a := c.answers[0]
			if len(c.answers) > 1 {
				c.answers = c.answers[1:]
			}
			return a
		}
		got := e.run(t, anyExec)
		failed := c.err != nil || c.text != ""
		if got.code != c.code || (got.err != nil) != failed || failed && !strings.Contains(got.err.Error(), c.text) ||
			c.err != nil && !errors.Is(got.err, c.err) {
			t.Errorf("%s: %d, %v", c.name, got.code, got.err)
		}
	}
}

// TestF19StartText: the runtime's words are an error, a program's own are not.
func TestF19StartText(t *testing.T) {
	const refusal = refusalMark + `: exec failed: "x": not found` + "\r\n"
	e := newExecEngine(t)
	for _, c := range []struct {
		name   string
		parts  []string
		code   int
		stdout string
		err    string
	}{
		{"refused", []string{refusal}, 126, "", refusalMark},
		{"refused, in pieces", strings.SplitAfter(refusal, " "), 127, "", refusalMark},
		{"suspended", []string{refusalMark + ": cannot exec in a paused state"}, 126, "", "suspended"},
		{"a program's own code", []string{"out"}, 127, "out", ""},
		{"a program that quotes it", []string{refusal}, 1, refusal, ""},
		{"a program that quotes it and succeeds", []string{refusal}, 0, refusal, ""},
		{"a beginning of it", []string{"OCI run"}, 126, "OCI run", ""},
		{"not at the beginning", []string{"x" + refusal}, 126, "x" + refusal, ""},
		{"too much of it", []string{refusal, strings.Repeat("y", maxEngineText)}, 126, refusal + strings.Repeat("y", maxEngineText), ""},
	} {
		for _, tty := range []bool{false, true} {
			e.inspect = func() string { return fmt.Sprintf(`{"Running":false,"ExitCode":%d}`, c.code) }
			e.stream = func(conn net.Conn) {
				var w io.Writer = conn
				if !tty {
					w = stdcopy.NewStdWriter(conn, stdcopy.Stdout)
				}
				for _, p := range c.parts {
					io.WriteString(w, p)
				}
			}
			got := e.run(t, runner.ExecSpec{Argv: []string{"x"}, TTY: tty})
			if got.stdout != c.stdout || got.code != c.code || (got.err == nil) != (c.err == "") ||
				got.err != nil && !strings.Contains(got.err.Error(), c.err) {
				t.Errorf("%s, tty %v: %+v", c.name, tty, got)
			}
			if c.name == "suspended" && !errors.Is(got.err, runner.ErrPrecondition) {
				t.Errorf("%s: %v", c.name, got.err)
			}
		}
	}
}

// TestB14AbandonedStreams leave no goroutine: not those that were closed while
// they wait for a reader, and not those whose context ended.
func TestB14AbandonedStreams(t *testing.T) {
	e := newExecEngine(t)
	var mu sync.Mutex
	alive := 0
	e.inspect = func() string {
		return `{"Running":false,"ExitCode":137}` // what a kill leads to
	}
	e.stream = func(conn net.Conn) {
		mu.Lock()
		alive++
		mu.Unlock()
		w := stdcopy.NewStdWriter(conn, stdcopy.Stderr)
		for { // for as long as somebody is there
			if _, err := w.Write(bytes.Repeat([]byte("x"), 1000)); err != nil {
				break
			}
		}
		mu.Lock()
		alive--
		mu.Unlock()
	}
	e.run1(t) // connections of the client that stay
	before := runtime.NumGoroutine()
	for i := range 100 {
		ctx, cancel := context.WithCancel(t.Context())
		s, err := e.ExecStream(ctx, scriptedRef, runner.ExecSpec{Argv: []string{"x"}, TTY: i%2 == 0})
		if err != nil {
			t.Fatal(err)
		}
		if i%3 == 0 {
			cancel()
			s.Wait()
		} else if err := s.Close(); err != nil {
			t.Error(err)
		}
		cancel()
	}
	settled := func() bool {
		mu.Lock()
		defer mu.Unlock()
		return alive == 0 && runtime.NumGoroutine() <= before+4
	}
	for ctx := soon(t); !settled(); time.Sleep(10 * time.Millisecond) {
		if ctx.Err() != nil {
			buf := make([]byte, 1<<20)
			t.Fatalf("%d goroutines before, %d after\n%s", before, runtime.NumGoroutine(), buf[:runtime.Stack(buf, true)])
		}
	}
}

func (e *execEngine) run1(t *testing.T) {
	s, err := e.ExecStream(t.Context(), scriptedRef, anyExec)
	if err != nil {
		t.Fatal(err)
	}
	s.Close()
}

// TestCloseKills: the recorder's kill is run for a process that lives, once it
// is there, and again when it goes on living; and for no other.
func TestCloseKills(t *testing.T) {
	for _, c := range []struct {
		name    string
		answers []string
		kills   int64
	}{
		{"lives", []string{`{"Running":true}`, `{"Running":false,"ExitCode":137}`}, 1},
		{"comes late", []string{`{"Running":false,"ExitCode":null}`, `{"Running":true}`, `{"Running":false,"ExitCode":137}`}, 1},
		{"dies hard", []string{`{"Running":true}`, `{"Running":true}`, `{"Running":false,"ExitCode":137}`}, 2},
		{"has ended meanwhile", []string{`{"Running":false,"ExitCode":0}`}, 0},
	} {
		e := newExecEngine(t)
		e.stream = func(conn net.Conn) { io.Copy(io.Discard, conn) }
		s, err := e.ExecStream(soon(t), scriptedRef, anyExec)
		if err != nil {
			t.Fatal(err)
		}
		e.inspect = func() string {
			a := c.answers[0]
			if len(c.answers) > 1 {
				c.answers = c.answers[1:]
			}
			return a
		}
		if err := s.Close(); err != nil || e.created.Load()-1 != c.kills {
			t.Errorf("%s: %v, %d kills", c.name, err, e.created.Load()-1)
		}
	}
}

// TestStartWithoutAnAnswer: it may have been heard all the same, so what came
// of it is ended.
func TestStartWithoutAnAnswer(t *testing.T) {
	e := newExecEngine(t)
	started, gone := make(chan struct{}), make(chan struct{})
	e.stall = func(req *http.Request) {
		close(started)
		<-req.Context().Done()
		close(gone)
	}
	e.inspect = func() string {
		if e.created.Load() == 1 {
			return `{"Running":true}`
		}
		return `{"Running":false,"ExitCode":137}`
	}
	ctx, cancel := context.WithCancel(t.Context())
	go func() { <-started; cancel() }()
	if _, err := e.ExecStream(ctx, scriptedRef, anyExec); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	<-gone
	for ctx := soon(t); e.created.Load() < 2; time.Sleep(5 * time.Millisecond) {
		if ctx.Err() != nil {
			t.Fatal("no kill was run")
		}
	}
}

// TestD12HijackIsBounded: an engine that takes the request and does not answer.
func TestD12HijackIsBounded(t *testing.T) {
	leave := make(chan struct{})
	mux := http.NewServeMux()
	mux.HandleFunc("/containers/{ref}/attach", func(http.ResponseWriter, *http.Request) { <-leave })
	mux.HandleFunc("/containers/{ref}/other", func(w http.ResponseWriter, _ *http.Request) {
		conn, _, _ := w.(http.Hijacker).Hijack()
		io.WriteString(conn, "HTTP/1.1 409 Conflict\r\nContent-Type: text/plain\r\n\r\ncontainer x is paused\x00")
		conn.Close()
	})
	mux.HandleFunc("/containers/{ref}/early", func(w http.ResponseWriter, _ *http.Request) {
		conn, _, _ := w.(http.Hijacker).Hijack()
		io.WriteString(conn, "HTTP/1.1 101 UPGRADED\r\nConnection: Upgrade\r\nUpgrade: tcp\r\n\r\nearly")
		time.AfterFunc(50*time.Millisecond, func() {
			io.WriteString(conn, " late")
			conn.Close()
		})
	})
	r := httpEngine(t, mux)
	t.Cleanup(func() { close(leave) })

	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := r.attachStream(ctx, scriptedRef, false); !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, runner.ErrUnavailable) {
		t.Errorf("no answer: %v", err)
	}
	_, err := r.hijack(t.Context(), "/containers/x/other", nil, nil)
	if err = refused("attach", err); !errors.Is(err, runner.ErrPrecondition) || !strings.HasSuffix(err.Error(), "container x is paused") {
		t.Errorf("refused: %q", err)
	}
	s, err := r.hijack(t.Context(), "/containers/x/early", nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer s.conn.Close()
	if got, _ := io.ReadAll(s.reader()); string(got) != "early late" {
		t.Errorf("stream: %q", got)
	}
	if _, ok := s.conn.(*net.UnixConn); !ok {
		t.Errorf("connection %T cannot be handed on", s.conn)
	}
}

// TestAttachOutputOfOneThatEnds just then: its stream would never end.
func TestAttachOutputOfOneThatEnds(t *testing.T) {
	mux := http.NewServeMux()
	r := httpEngine(t, mux)
	looks := 0
	mux.HandleFunc("GET /containers/{ref}/json", func(w http.ResponseWriter, _ *http.Request) {
		looks++
		json.NewEncoder(w).Encode(map[string]any{
			"Name": "/" + scriptedRef, "State": map[string]any{"Running": looks == 1, "StartedAt": startTime},
			"Config": map[string]any{"Labels": r.reserved(scriptedRef, componentAgent)},
		})
	})
	closed := make(chan struct{})
	mux.HandleFunc("POST /containers/{ref}/attach", func(w http.ResponseWriter, _ *http.Request) {
		conn := upgrade(t, w)
		io.Copy(io.Discard, conn)
		close(closed)
	})
	if _, err := r.AttachOutput(t.Context(), scriptedRef); !errors.Is(err, runner.ErrPrecondition) {
		t.Fatalf("%v", err)
	}
	<-closed
}

func TestExecOptions(t *testing.T) {
	env := []string{"A=1"}
	spec := runner.ExecSpec{Argv: []string{"ls", "-l"}, Env: env, Cols: 100, Rows: 30}
	plain := execOptions("id", spec)
	if want := (container.ExecOptions{
		Cmd: []string{recorderTarget, "exec", "id", "--", "ls", "-l"}, Env: []string{"A=1"},
		AttachStdin: true, AttachStdout: true, AttachStderr: true,
	}); !reflect.DeepEqual(plain, want) {
		t.Errorf("%+v", plain)
	}
	spec.TTY = true
	tty := execOptions("id", spec)
	if want := (container.ExecOptions{
		Cmd: []string{recorderTarget, "exec", "-cols", "100", "-rows", "30", "id", "--", "ls", "-l"},
		Env: []string{"A=1", "TERM=xterm-256color"}, Tty: true, ConsoleSize: &[2]uint{30, 100},
		AttachStdin: true, AttachStdout: true, AttachStderr: true,
	}); !reflect.DeepEqual(tty, want) {
		t.Errorf("%+v", tty)
	}
}

// TestAgentWaitRidesOut: a stream that breaks is not the agent's end.
func TestAgentWaitRidesOut(t *testing.T) {
	p := &process{exec: "0123456789ab", done: make(chan struct{}), err: errEngine}
	close(p.done)
	left := 3
	e := newExecEngine(t)
	e.inspect = func() string {
		if left--; left > 0 {
			return "!"
		}
		return `{"Running":false,"ExitCode":8}`
	}
	e.use.agents.add(scriptedRef, p)
	if code, err := e.Wait(soon(t), scriptedRef); code != 8 || err != nil {
		t.Errorf("%d, %v", code, err)
	}
}
