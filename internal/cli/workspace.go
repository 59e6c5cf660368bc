package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"

	"github.com/wardyn/nomad-driver-wardyn/internal/datadir"
)

// workspace are the temporary directories of a run.
type workspace struct {
	temp  string // "" when nothing is temporary
	alloc string // the root of the allocation's directory
	data  string // the plugin's data dir, when it is the run's own
	keep  bool
	// made are the folders above alloc that were not there before, the deepest
	// first.
	made []string

	dismiss func() error // ends the caretaker, who removes all this if the run is killed
}

// The plugin's socket lies in the temporary folder, by a name of its library's
// choice, and a socket's address holds no more bytes than this.
const (
	longestSocket  = "plugin4294967295"
	longestAddress = 107
)

// workspace makes the directories, and gives the plugin a data dir of its own,
// whatever its options name: a run and a live agent on one engine never touch
// each other's objects.
func (r *run) workspace(p *placement) (*workspace, error) {
	alloc, err := filepath.Abs(r.options.allocRoot)
	if err != nil {
		return nil, fmt.Errorf("-alloc-dir: %w", err)
	}
	temp := filepath.Join(os.TempDir(), fmt.Sprint("wardyn-run-", rand.Uint32()))
	if over := len(filepath.Join(temp, longestSocket)) - longestAddress; over > 0 {
		return nil, fmt.Errorf("TMPDIR = %q is %d bytes too long for the plugin's socket below it; set a shorter one", os.TempDir(), over)
	}
	if r.options.allocRoot == "" {
		alloc = filepath.Join(temp, "alloc")
	}
	if err := apart(p.group, temp, alloc); err != nil {
		return nil, err
	}
	w := &workspace{temp: temp, data: filepath.Join(temp, "data"), alloc: alloc, keep: r.options.keep}
	r.config["data_dir"] = w.data
	if r.options.allocRoot != "" {
		w.made = absent(w.alloc)
	}
	// First, so that there is no moment at which a kill would leave anything.
	w.dismiss, err = appoint(r.env, estate{
		Config: r.config, Temp: w.temp, Data: w.data, AllocRoot: w.alloc, AllocDir: filepath.Join(w.alloc, p.alloc),
		Made: w.made, Keep: w.keep, Tokens: tokenFiles(p.group),
	})
	if err != nil {
		return nil, err
	}
	if err := os.Mkdir(temp, 0o700); err != nil {
		return nil, errors.Join(fmt.Errorf("temporary directory: %w", err), w.dismiss())
	}
	return w, nil
}

// absent lists a folder and those above it that do not exist.
func absent(dir string) []string {
	var out []string
	for ; dir != "/"; dir = filepath.Dir(dir) {
		if _, err := os.Lstat(dir); !errors.Is(err, fs.ErrNotExist) {
			break
		}
		out = append(out, dir)
	}
	return out
}

// remove removes what the run had on the engine beside its tasks, and its
// directories. failed is what the run ended with.
func (w *workspace) remove(ctx context.Context, e Env, config map[string]any, failed error) error {
	var errs []error
	if _, err := os.Stat(w.data); err == nil { // else the plugin never got so far
		if e.Purge != nil {
			// What is kept goes too: with the data dir goes the proof whose it is.
			err := e.Purge(ctx, config, true)
			var sick *unwell
			if errors.Is(err, ErrEngineAway) && errors.As(failed, &sick) {
				err = nil // that is what was told, and nothing can have been made
			}
			errs = append(errs, err)
		}
		errs = append(errs, removeRunRoot(w.data), removeTree(w.data))
	}
	if w.temp != "" && !(w.keep && strings.HasPrefix(w.alloc, w.temp)) {
		errs = append(errs, removeTree(w.temp))
	}
	for _, dir := range w.made {
		if err := os.Remove(dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
			break // something is in it: with keep, the allocation
		}
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("clean up: %w", err)
	}
	return nil
}

// removeRunRoot removes the folder that a short-lived data dir has on tmpfs.
func removeRunRoot(data string) error {
	d, err := datadir.Open(data)
	if err != nil {
		return err
	}
	return d.RemoveRunRoot()
}

// removeTree removes a directory unless something is mounted in it: a task that
// could not be ended may have folders of this machine bound there.
func removeTree(dir string) error {
	f, err := os.Open("/proc/self/mountinfo")
	if err != nil {
		return err
	}
	defer f.Close()
	mounted, err := mountsBelow(f, dir)
	if err != nil {
		return err
	}
	if len(mounted) > 0 {
		return fmt.Errorf("%s is not removed, because these are still mounted: %s", dir, strings.Join(mounted, ", "))
	}
	return os.RemoveAll(dir)
}

// mountsBelow lists the mount points in a directory, itself among them, from a
// mountinfo file.
func mountsBelow(mountinfo io.Reader, dir string) ([]string, error) {
	const mountPoint = 4 // the field's index
	unescape := strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`)
	var found []string
	lines := bufio.NewScanner(mountinfo)
	for lines.Scan() {
		fields := strings.Fields(lines.Text())
		if len(fields) <= mountPoint {
			return nil, fmt.Errorf("mountinfo: unexpected line %q", lines.Text())
		}
		if point := unescape.Replace(fields[mountPoint]); point == dir || strings.HasPrefix(point, dir+"/") {
			found = append(found, point)
		}
	}
	return found, lines.Err()
}
