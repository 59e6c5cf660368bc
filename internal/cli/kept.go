package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
)

// Kept is what an installation keeps beyond its tasks.
type Kept interface {
	// List returns what is kept of one kind.
	List(ctx context.Context, kind KeptKind) ([]KeptItem, error)
	// Export writes the files of a volume as a tar archive.
	Export(ctx context.Context, id string, w io.Writer) error
	// Remove removes one by its ID. What is in use stays, and is an error.
	Remove(ctx context.Context, kind KeptKind, id string) error
	Close() error
}

// KeptKind is a kind of things that outlive tasks.
type KeptKind int

// The kinds.
const (
	KeptVolumes KeptKind = iota
	KeptImages
)

// KeptItem is one thing that is kept.
type KeptItem struct {
	ID        string    `json:"id"` // the engine's name of it
	Kind      string    `json:"kind"`
	Namespace string    `json:"namespace"`
	Name      string    `json:"name"`
	Bytes     int64     `json:"bytes"` // -1: not known
	Created   time.Time `json:"created"`
	Used      time.Time `json:"used,omitzero"` // of an image: when a task last started from it
	Users     []string  `json:"users"`
}

// keptFlags are those that all commands of kept things have.
type keptFlags struct {
	config, output string
	json           bool
}

func (o *keptFlags) bind(fs *flag.FlagSet, kind KeptKind) {
	installationFlag(fs, &o.config)
	if kind == KeptVolumes {
		fs.StringVar(&o.output, "o", "", "with export: write to `FILE` instead of standard output")
	}
	fs.BoolVar(&o.json, "json", false, "with list: print JSON")
}

// keptCommand is a command with the words list and remove, and for volumes export.
func keptCommand(name, args, summary, text string, kind KeptKind) *command {
	return &command{
		name: name, args: args, summary: summary, text: text,
		flags: func(fs *flag.FlagSet) { (&keptFlags{}).bind(fs, kind) },
		run: func(ctx context.Context, e Env, c *command, argv []string) int {
			var o keptFlags
			fs := flag.NewFlagSet(c.name, flag.ContinueOnError)
			o.bind(fs, kind)
			words, ok, code := c.parseMixed(e, fs, argv)
			if !ok {
				return code
			}
			return e.report(e.kept(ctx, c.name, kind, o, words))
		},
	}
}

func (e Env) kept(ctx context.Context, command string, kind KeptKind, o keptFlags, words []string) error {
	if len(words) == 0 {
		words = []string{"list"}
	}
	verb, names := words[0], words[1:]
	switch {
	case verb == "list" && len(names) == 0, verb == "remove" && len(names) > 0:
	case verb == "export" && kind == KeptVolumes && len(names) == 1:
	default:
		return usageError(fmt.Sprintf("%s: see nomad-driver-wardyn help %s", command, command))
	}
	config, err := loadPluginConfig(o.config)
	if err != nil {
		return err
	}
	if e.OpenKept == nil {
		return errors.New("this program was built without an engine")
	}
	k, err := e.OpenKept(config)
	if err != nil {
		return err
	}
	defer k.Close()
	items, err := k.List(ctx, kind)
	if err != nil {
		return err
	}
	slices.SortFunc(items, func(a, b KeptItem) int {
		return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	if verb == "list" {
		return e.listKept(items, o.json)
	}
	chosen, err := choose(items, names)
	if err != nil {
		return err
	}
	if verb == "export" {
		return e.exportKept(ctx, k, chosen[0], o.output)
	}
	var errs []error
	for _, it := range chosen {
		errs = append(errs, k.Remove(ctx, kind, it.ID))
	}
	return errors.Join(errs...)
}

// choose finds items by what list prints of them: exactly, never by a part.
func choose(items []KeptItem, names []string) ([]KeptItem, error) {
	var out []KeptItem
	var errs []error
	for _, name := range names {
		var found []KeptItem
		for _, it := range items {
			if name == it.ID || name == it.Namespace+"/"+it.Name || name == it.Kind+":"+it.Namespace+"/"+it.Name {
				found = append(found, it)
			}
		}
		switch len(found) {
		case 1:
			out = append(out, found[0])
		case 0:
			errs = append(errs, fmt.Errorf("%q: there is none of this name; list shows what there is, name it NAMESPACE/NAME or by its id", printable(name)))
		default:
			errs = append(errs, fmt.Errorf("%q names several; name it KIND:NAMESPACE/NAME", printable(name)))
		}
	}
	return out, errors.Join(errs...)
}

func (e Env) listKept(items []KeptItem, asJSON bool) error {
	if asJSON {
		enc := json.NewEncoder(e.Stdout)
		enc.SetIndent("", "  ")
		return enc.Encode(append([]KeptItem{}, items...))
	}
	w := tabwriter.NewWriter(e.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "KIND\tNAME\tSIZE\tCREATED\tLAST USED\tIN USE BY\tID")
	for _, it := range items {
		users := strings.Join(it.Users, " ")
		fmt.Fprintln(w, strings.Join([]string{
			it.Kind, printable(it.Namespace + "/" + it.Name), size(it.Bytes), date(it.Created), date(it.Used), cmp.Or(users, "-"), printable(it.ID),
		}, "\t"))
	}
	return w.Flush()
}

func date(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return t.UTC().Format("2006-01-02 15:04")
}

// size is a number of bytes as people read it.
func size(n int64) string {
	if n < 0 {
		return "?"
	}
	v, unit := float64(n), "B"
	for _, u := range []string{"KiB", "MiB", "GiB", "TiB"} {
		if v < 1024 {
			break
		}
		v, unit = v/1024, u
	}
	if unit == "B" {
		return strconv.FormatInt(n, 10) + " B"
	}
	return strconv.FormatFloat(v, 'f', 1, 64) + " " + unit
}

// exportKept writes an archive to a file, which is whole or not there, or to
// standard output.
func (e Env) exportKept(ctx context.Context, k Kept, it KeptItem, file string) error {
	if file == "" {
		return k.Export(ctx, it.ID, e.Stdout)
	}
	f, err := os.OpenFile(file, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	err = errors.Join(k.Export(ctx, it.ID, f), f.Close())
	if err != nil {
		return errors.Join(err, os.Remove(file))
	}
	return nil
}

var workspacesCommand = keptCommand("workspaces", "[-plugin-config FILE] [list [-json] | export NAME [-o FILE] | remove NAME...]",
	"list, export and remove the volumes that tasks keep",
	"Named workspaces and homes outlive the tasks that use them, and are removed by\n"+
		"nothing else. A NAME is NAMESPACE/NAME as list shows it, or the id. One that is in\n"+
		"use is not removed. export writes a tar archive, of a workspace in use as far as\n"+
		"its files hold still.", KeptVolumes)

var imagesCommand = keptCommand("images", "[-plugin-config FILE] [list [-json] | remove NAME...]",
	"list and remove the images that tasks leave",
	"Snapshots and the images that setup scripts made outlive the tasks they come from. A\n"+
		"NAME is NAMESPACE/NAME as list shows it, or the id. One that is in use is not\n"+
		"removed. The size is what an image takes beyond the one it was made from.", KeptImages)
