package cli

import (
	"errors"
	"flag"
	"strings"

	"github.com/wardyn/nomad-driver-wardyn/internal/jobfile"
)

// valueFlags set a job file's variables, as the flags of Nomad's own commands do.
type valueFlags struct {
	given  varFlag
	files  fileFlag
	strict bool
}

func (v *valueFlags) bind(fs *flag.FlagSet) {
	v.given = varFlag{}
	fs.Var(v.given, "var", "value of a variable, as `NAME=VALUE`; may be repeated")
	fs.Var(&v.files, "var-file", "`FILE` with NAME = VALUE of variables, HCL or .json; may be repeated;\n      of several values for one variable -var goes before the files, a later file before an earlier one,\n      and all before NOMAD_VAR_name in the environment")
	fs.BoolVar(&v.strict, "hcl2-strict", true, "refuse values for variables that the job file does not declare")
}

// values are what the flags and the environment say.
func (v valueFlags) values(e Env) jobfile.Values {
	return jobfile.Values{Given: v.given, Files: v.files, LookupEnv: e.LookupEnv, Lenient: !v.strict}
}

// varFlag collects -var NAME=VALUE.
type varFlag map[string]string

func (v varFlag) String() string { return "" }

func (v varFlag) Set(s string) error {
	name, value, ok := strings.Cut(s, "=")
	if !ok || name == "" {
		return errors.New("want NAME=VALUE")
	}
	v[name] = value
	return nil
}

// fileFlag collects -var-file FILE.
type fileFlag []string

func (f *fileFlag) String() string { return "" }

func (f *fileFlag) Set(s string) error {
	if s == "" {
		return errors.New("want a file")
	}
	*f = append(*f, s)
	return nil
}
