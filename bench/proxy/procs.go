package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// proxy is one program under measurement.
type proxy struct {
	name, addr string
	host       string // by which it is asked for the origin
	intercepts bool
	cmd        *exec.Cmd
	family     bool // it works in child processes
}

const clockTicks = 100 // per second, on every Linux that Go runs on

// pids are the processes of the proxy.
func (p *proxy) pids() []int {
	out := []int{p.cmd.Process.Pid}
	if !p.family {
		return out
	}
	for i := 0; i < len(out); i++ {
		b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", out[i], out[i]))
		for _, f := range strings.Fields(string(b)) {
			if pid, err := strconv.Atoi(f); err == nil {
				out = append(out, pid)
			}
		}
	}
	return out
}

// cpu is the CPU time used so far, in seconds.
func (p *proxy) cpu() float64 {
	total := 0
	for _, pid := range p.pids() {
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil {
			continue
		}
		f := strings.Fields(string(b[bytes.LastIndexByte(b, ')')+2:]))
		user, _ := strconv.Atoi(f[11])
		system, _ := strconv.Atoi(f[12])
		total += user + system
	}
	return float64(total) / clockTicks
}

// rss is the memory held, in MB.
func (p *proxy) rss() float64 {
	total := 0.0
	for _, pid := range p.pids() {
		b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
		for line := range strings.Lines(string(b)) {
			if f := strings.Fields(line); len(f) == 3 && f[0] == "VmRSS:" {
				kb, _ := strconv.ParseFloat(f[1], 64)
				total += kb * 1024 / 1e6
			}
		}
	}
	return total
}

// start brings every proxy up that this machine has.
func start(o options, origin *origin) ([]*proxy, func()) {
	dir, err := os.MkdirTemp("", "bench-proxy")
	if err != nil {
		fatal(err)
	}
	write := func(name string, b []byte) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, b, 0o644); err != nil {
			fatal(err)
		}
		return path
	}
	os.Setenv("BENCH_CA", write("ca.pem", origin.caPEM))
	os.Setenv("BENCH_CA_KEY", write("ca.key", origin.caKeyPEM))
	os.Setenv("BENCH_ORIGIN", origin.ip)
	self, err := os.Executable()
	if err != nil {
		fatal(err)
	}
	all := []*proxy{
		wardyn(o.wardyn, "wardyn", "127.66.0.2", dir, origin, false),
		wardyn(o.wardyn, "wardyn intercepting", "127.66.0.3", dir, origin, true),
		{name: "minimal splice", addr: "127.66.0.10:3128", host: origin.ip, cmd: exec.Command(self, "minimal", "127.66.0.10:3128")},
		{name: "goproxy", addr: "127.66.0.11:3128", host: origin.ip, cmd: exec.Command(self, "goproxy", "127.66.0.11:3128")},
		{name: "goproxy intercepting", addr: "127.66.0.12:3128", host: origin.ip, intercepts: true, cmd: exec.Command(self, "goproxy-intercept", "127.66.0.12:3128")},
		{name: "smokescreen", addr: "127.66.0.13:3128", host: origin.ip, cmd: exec.Command(self, "smokescreen", "127.66.0.13:3128")},
	}
	all = append(all, installed(dir, write, origin)...)
	var up []*proxy
	for _, p := range all {
		if !slices.ContainsFunc(strings.Split(o.only, ","), func(begin string) bool { return strings.HasPrefix(p.name, begin) }) {
			continue
		}
		if err := p.start(); err != nil {
			fmt.Fprintf(os.Stderr, "%s left out: %v\n", p.name, err)
			continue
		}
		up = append(up, p)
	}
	return up, func() {
		for _, p := range up {
			p.cmd.Process.Signal(os.Interrupt)
			time.AfterFunc(2*time.Second, func() { p.cmd.Process.Kill() })
			p.cmd.Wait()
		}
		os.RemoveAll(dir)
	}
}

func (p *proxy) start() error {
	if err := p.cmd.Start(); err != nil {
		return err
	}
	for range 300 {
		if c, err := net.Dial("tcp", p.addr); err == nil {
			c.Close()
			return nil
		}
		time.Sleep(20 * time.Millisecond)
	}
	p.cmd.Process.Kill()
	p.cmd.Wait()
	return fmt.Errorf("it does not listen on %s", p.addr)
}

// wardyn serves the proxy its configuration on a control socket, as the plugin does.
func wardyn(program, name, leg, dir string, origin *origin, intercept bool) *proxy {
	config := map[string]any{
		"run_id": "11111111-1111-4111-8111-111111111111", "control_plane_url": "http://control", "run_token": "bench-token-0123456789", "listen": ":3128",
		"policy": map[string]any{"allowed_domains": []string{originName}, "first_use_approval": "always_deny", "min_confinement_class": "CC1"},
	}
	if intercept {
		config["mitm_hosts"], config["mitm_ca_cert_pem"], config["mitm_ca_key_pem"] = []string{originName}, string(origin.caPEM), string(origin.caKeyPEM)
	}
	node := map[string]any{"listen": leg, "ca_roots": string(origin.caPEM), "decision_batch": 256,
		"private_hosts": map[string]any{originName: map[string]any{"addresses": []string{origin.ip}}}}
	sock := filepath.Join(dir, leg+".sock")
	l, err := net.Listen("unix", sock)
	if err != nil {
		fatal(err)
	}
	go http.Serve(l, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		switch {
		case strings.HasSuffix(r.URL.Path, "/config"):
			json.NewEncoder(w).Encode(map[string]any{"proxy": config, "node": node})
		case strings.HasSuffix(r.URL.Path, "/renew"):
			fmt.Fprintf(w, `{"token":"bench-token-0123456789","expires_at":%q}`, time.Now().Add(time.Hour).Format(time.RFC3339))
		}
	}))
	return &proxy{name: name, addr: leg + ":3128", host: originName, intercepts: intercept, cmd: exec.Command(program, "-control", "unix://"+sock)}
}

// installed are peers from the distribution's packages.
func installed(dir string, write func(string, []byte) string, origin *origin) []*proxy {
	squid := write("squid.conf", fmt.Appendf(nil, `http_port 127.66.0.20:3128
cache deny all
access_log none
cache_log /dev/null
pid_filename none
http_access allow all
coredump_dir %s
shutdown_lifetime 1 second
`, dir))
	tiny := write("tinyproxy.conf", []byte(`Port 3128
Listen 127.66.0.21
Timeout 600
MaxClients 600
LogLevel Critical
`+fmt.Sprintf("ConnectPort %s\nConnectPort %s\n", origin.raw, origin.bulk)))
	return []*proxy{
		{name: "squid", addr: "127.66.0.20:3128", host: origin.ip, family: true, cmd: exec.Command("squid", "-N", "-f", squid)},
		{name: "tinyproxy", addr: "127.66.0.21:3128", host: origin.ip, family: true, cmd: exec.Command("tinyproxy", "-d", "-c", tiny)},
	}
}

func fatal(err error) {
	fmt.Fprintln(os.Stderr, "bench/proxy:", err)
	os.Exit(1)
}
