package cli

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/wardyn/nomad-driver-wardyn/internal/jobfile"
)

// givenFlags stand for what a cluster would give a job: a dispatch, the client's
// host volumes, Nomad variables.
type givenFlags struct {
	meta     varFlag
	payload  string // a file, "-" for standard input
	volumes  volumeFlag
	vars     nomadVarFlag
	varFiles fileFlag
}

func (g *givenFlags) bind(fs *flag.FlagSet) {
	g.meta, g.volumes = varFlag{}, volumeFlag{}
	fs.Var(g.meta, "meta", "dispatch a parameterized job with this meta, `KEY=VALUE`; may be repeated")
	fs.StringVar(&g.payload, "payload", "", "dispatch a parameterized job with what is in this `FILE`, - for standard input, of 16 KiB at most")
	fs.Var(g.volumes, "host-volume", "`NAME=DIR`: this folder is what a client's configuration would call host_volume NAME; may be repeated")
	fs.Var(&g.vars, "nomad-var", "`PATH:KEY=VALUE` is an item of the Nomad variable that templates find at PATH (of another\n      namespace than the job's with PATH@NAMESPACE); may be repeated. Others see a command's arguments: put secrets into a file")
	fs.Var(&g.varFiles, "nomad-var-file", "`FILE` with path and items of a Nomad variable, as nomad var put takes it (HCL) or\n      nomad var get -out json prints it (.json); may be repeated, -nomad-var goes before")
}

// options are the job file's share of the flags.
func (g givenFlags) options(e Env) (jobfile.Options, error) {
	o := jobfile.Options{HostVolumes: g.volumes, NomadVars: jobfile.NomadVars{}}
	payload, err := g.readPayload(e)
	if err != nil {
		return o, fmt.Errorf("-payload: %w", err)
	}
	if len(g.meta) > 0 || g.payload != "" {
		o.Dispatch = &jobfile.Dispatch{Payload: payload, Meta: g.meta}
	}
	for _, file := range g.varFiles {
		if err := o.NomadVars.ReadFile(file); err != nil {
			return o, fmt.Errorf("-nomad-var-file: %w", err)
		}
	}
	for _, v := range g.vars {
		if err := o.NomadVars.Set(v.namespace, v.path, v.key, v.value); err != nil {
			return o, fmt.Errorf("-nomad-var: %w", err)
		}
	}
	return o, nil
}

// readPayload reads no more than it takes to see that there is too much.
func (g givenFlags) readPayload(e Env) ([]byte, error) {
	from := e.Stdin
	switch g.payload {
	case "":
		return nil, nil
	case "-":
	default:
		f, err := os.Open(g.payload)
		if err != nil {
			return nil, err
		}
		defer f.Close()
		from = f
	}
	return io.ReadAll(io.LimitReader(from, jobfile.MaxPayload+1))
}

// volumeFlag collects -host-volume NAME=DIR.
type volumeFlag map[string]string

func (v volumeFlag) String() string { return "" }

func (v volumeFlag) Set(s string) error {
	name, dir, ok := strings.Cut(s, "=")
	if !ok || name == "" || dir == "" {
		return errors.New("want NAME=DIR")
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return err
	}
	if info, err := os.Stat(dir); err != nil {
		return err
	} else if !info.IsDir() {
		return fmt.Errorf("%s is not a folder", dir)
	}
	v[name] = dir
	return nil
}

// nomadVarFlag collects -nomad-var PATH:KEY=VALUE, in their order.
type nomadVarFlag []nomadVarItem

// nomadVarItem is one item of a Nomad variable; the namespace "" is the job's.
type nomadVarItem struct{ namespace, path, key, value string }

func (v *nomadVarFlag) String() string { return "" }

func (v *nomadVarFlag) Set(s string) error {
	where, item, ok := strings.Cut(s, ":")
	path, namespace, _ := strings.Cut(where, "@")
	key, value, hasValue := strings.Cut(item, "=")
	if !ok || !hasValue || path == "" || key == "" {
		return errors.New("want PATH:KEY=VALUE")
	}
	*v = append(*v, nomadVarItem{namespace, path, key, value})
	return nil
}
