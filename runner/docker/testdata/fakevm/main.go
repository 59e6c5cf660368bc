// Fakevm stands in for a microVM runtime in tests of the wiring. As a runtime
// it is runc, but for one thing: it puts itself over /wardyn-rec in the
// containers that have one. There it says of the kernel what a guest of its
// own would, and is wardyn-rec in everything else. It encloses nothing.
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"

	"github.com/wardyn/nomad-driver-wardyn/internal/rec"
)

func main() {
	if filepath.Base(os.Args[0]) == "wardyn-rec" {
		if len(os.Args) == 2 && os.Args[1] == "probe" {
			fmt.Println(`{"sysname":"Linux","release":"0.0.1-guest","boot_id":"guest","processes":64,"right":64}`)
			return
		}
		os.Exit(rec.Main(os.Args, "stand-in"))
	}
	if err := runtime(); err != nil {
		fmt.Fprintln(os.Stderr, "fakevm:", err)
		os.Exit(1)
	}
}

func runtime() error {
	if i := slices.Index(os.Args, "--bundle"); i > 0 && slices.Contains(os.Args, "create") {
		if err := stepIn(filepath.Join(os.Args[i+1], "config.json")); err != nil {
			return err
		}
	}
	runc, err := exec.LookPath("runc")
	if err != nil {
		return err
	}
	return syscall.Exec(runc, append([]string{"runc"}, os.Args[1:]...), os.Environ())
}

// stepIn mounts this program over the container's /wardyn-rec, if it has one.
func stepIn(path string) error {
	b, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	var config map[string]any
	if err := json.Unmarshal(b, &config); err != nil {
		return err
	}
	args, _ := config["process"].(map[string]any)["args"].([]any)
	if len(args) == 0 || args[0] != "/wardyn-rec" {
		return nil
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	mounts, _ := config["mounts"].([]any)
	config["mounts"] = append(mounts, map[string]any{
		"destination": "/wardyn-rec", "type": "bind", "source": self, "options": []string{"rbind", "ro"},
	})
	if b, err = json.Marshal(config); err != nil {
		return err
	}
	return os.WriteFile(path, b, 0o600)
}
