// Command addruntime adds a runtime to a Docker daemon.json and keeps
// everything else in it:
//
//	addruntime FILE NAME PATH [ARG...]
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

func main() {
	if len(os.Args) < 4 {
		fmt.Fprintln(os.Stderr, "usage: addruntime FILE NAME PATH [ARG...]")
		os.Exit(2)
	}
	if err := add(os.Args[1], os.Args[2], os.Args[3], os.Args[4:]); err != nil {
		fmt.Fprintln(os.Stderr, "addruntime:", err)
		os.Exit(1)
	}
}

func add(file, name, path string, args []string) error {
	config := map[string]any{}
	b, err := os.ReadFile(file)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return err
	default:
		if err := json.Unmarshal(b, &config); err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
	}
	runtimes, _ := config["runtimes"].(map[string]any)
	if runtimes == nil {
		runtimes = map[string]any{}
	}
	runtimes[name] = map[string]any{"path": path, "runtimeArgs": args}
	config["runtimes"] = runtimes
	b, err = json.MarshalIndent(config, "", "  ")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return err
	}
	return os.WriteFile(file, append(b, '\n'), 0o644)
}
