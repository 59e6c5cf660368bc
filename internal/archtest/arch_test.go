// Package archtest keeps the import arrow of ARCHITECTURE.md, by reading the
// import clauses of every file. It parses in-process: a test that asks a child
// "go list" is cached and says ok after a forbidden import has been added.
package archtest

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "github.com/wardyn/nomad-driver-wardyn/"

// ours says which packages of this module a package may import, outside its
// own sub-packages. A package that is not in the table may import none: a new
// package means a decision about its place.
var ours = map[string][]string{
	"runner/types":      {},
	"runner/egress":     {"runner/types"},
	"runner":            {"runner/types", "runner/egress"},
	"runner/docker":     {"runner", "runner/types", "runner/egress", "internal/datadir", "internal/netpool", "internal/taskpath"},
	"runner/runnertest": {"runner", "runner/types", "runner/egress"},
	"driver":            {"runner", "runner/types", "runner/egress"},
	"driver/drivertest": {"driver", "runner"},

	"plugin":               {"plugin/internal/wire", "driver", "runner", "runner/types", "runner/egress", "internal/taskpath", "internal/control", "internal/keeper", "internal/nearest", "internal/ports", "internal/cast", "internal/proxy/dialguard"},
	"plugin/internal/wire": {},
	"plugin/host":          {"plugin/internal/wire"},

	"internal/datadir":  {},
	"internal/netpool":  {"internal/datadir"},
	"internal/ports":    {},
	"internal/embedded": {},
	"internal/taskpath": {},
	"internal/clean":    {},
	"internal/cast":     {"internal/clean", "internal/taskpath"},
	"internal/control":  {"runner/egress", "runner/types", "internal/datadir", "internal/netpool", "internal/ports", "internal/cast", "internal/clean", "internal/taskpath"},
	"internal/keeper":   {"runner", "internal/cast"},
	"internal/proxy":    {"runner/egress", "runner/types"},
	"internal/rec":      {"internal/cast"},
	"internal/nearest":  {},
	"internal/otlp":     {"internal/control", "internal/datadir", "runner/egress"},
	"internal/doctor":   {},
	"internal/jobfile":  {"internal/nearest"},
	"internal/archtest": {},
	"internal/cli":      {"internal/cast", "internal/control", "internal/cli/identity", "internal/jobfile", "internal/keeper", "internal/datadir", "internal/nearest", "internal/doctor", "internal/proxy/dialguard", "plugin", "plugin/host", "runner/egress", "runner/types"},
	"internal/testenv":  {"internal/datadir", "internal/embedded"},

	"internal/cli/identity": {"internal/jobfile"},

	"cmd/nomad-driver-wardyn": {"internal/proxy/audit", "internal/proxy/controlplane", "plugin", "driver", "runner", "runner/types", "runner/egress", "runner/docker",
		"internal/cli", "internal/control", "internal/datadir", "internal/doctor", "internal/embedded", "internal/keeper", "internal/netpool", "internal/otlp", "internal/taskpath"},
	"cmd/wardyn-proxy": {"internal/proxy", "internal/ports", "runner/egress"},
	"cmd/wardyn-rec":   {"internal/rec"},
}

// outside says which packages alone may import a module of others.
var outside = map[string][]string{
	"github.com/docker/":             {"runner/docker", "internal/testenv"},
	"github.com/opencontainers/":     {"runner/docker"},
	"github.com/containerd/":         {"runner/docker", "internal/testenv"},
	"github.com/hashicorp/go-plugin": {"plugin", "plugin/internal/wire", "plugin/host"},
	"github.com/hashicorp/go-hclog":  {"plugin", "plugin/internal/wire", "plugin/host"},
	"google.golang.org/grpc":         {"plugin", "plugin/internal/wire", "plugin/host", "internal/cli/checks"},
	"github.com/hashicorp/hcl/":      {"plugin", "plugin/internal/wire", "plugin/host", "internal/jobfile", "internal/cli"},
	"github.com/hashicorp/nomad/":    {},
	"go.opentelemetry.io/":           {"internal/otlp"},
	"github.com/go-jose/":            {"internal/cli/identity"},
	"golang.org/x/net/publicsuffix":  {"runner/egress"},
}

// plain packages link the standard library and golang.org/x/sys only.
var plain = []string{"internal/rec", "cmd/wardyn-rec"}

type source struct {
	pkg     string // below the module, "" at the top
	file    string
	test    bool
	comment bool
	imports []string
}

func TestImportArrow(t *testing.T) {
	for _, s := range sources(t) {
		if s.test || isTool(s.pkg) {
			continue
		}
		allowed, listed := lookup(s.pkg)
		for _, imp := range s.imports {
			in, ok := strings.CutPrefix(imp, module)
			if !ok || within(in, s.pkg) || within(in, owner(s.pkg)) {
				continue
			}
			if !listed {
				t.Errorf("%s: package %s is not in the table, so it may import nothing of ours; it imports %s", s.file, s.pkg, in)
			} else if !slices.ContainsFunc(allowed, func(a string) bool { return within(in, a) }) {
				t.Errorf("%s: %s may not import %s", s.file, s.pkg, in)
			}
		}
	}
}

func TestOutsideImports(t *testing.T) {
	for _, s := range sources(t) {
		if s.test || isTool(s.pkg) {
			continue
		}
		for _, imp := range s.imports {
			for prefix, who := range outside {
				if strings.HasPrefix(imp, prefix) && !slices.ContainsFunc(who, func(w string) bool { return within(s.pkg, w) }) {
					t.Errorf("%s: only %v may import %s", s.file, who, imp)
				}
			}
			if slices.Contains(plain, s.pkg) && strings.Contains(strings.SplitN(imp, "/", 2)[0], ".") &&
				!strings.HasPrefix(imp, "golang.org/x/sys") && !strings.HasPrefix(imp, module) {
				t.Errorf("%s: %s links the standard library and x/sys only, not %s", s.file, s.pkg, imp)
			}
		}
	}
}

// A test may not import Nomad either; only its separate api module is open.
func TestNomadIsNeverImported(t *testing.T) {
	for _, s := range sources(t) {
		for _, imp := range s.imports {
			if strings.HasPrefix(imp, "github.com/hashicorp/nomad") && !(within(s.pkg, "e2e") && strings.HasPrefix(imp, "github.com/hashicorp/nomad/api")) {
				t.Errorf("%s imports %s", s.file, imp)
			}
		}
	}
}

// A package has its place in the table, and a row its place on the page.
func TestEveryPackageIsListed(t *testing.T) {
	for _, s := range sources(t) {
		if _, listed := lookup(s.pkg); !listed && !isTool(s.pkg) {
			t.Errorf("%s: package %s is not in the table", s.file, s.pkg)
		}
	}
	page, err := os.ReadFile(filepath.Join("..", "..", "ARCHITECTURE.md"))
	if err != nil {
		t.Fatal(err)
	}
	for pkg := range ours {
		name := strings.TrimPrefix(pkg, "cmd/")
		if !strings.Contains(string(page), "`"+name+"`") {
			t.Errorf("ARCHITECTURE.md does not name %s", pkg)
		}
	}
}

func TestTablesNameWhatExists(t *testing.T) {
	have := map[string]bool{}
	for _, s := range sources(t) {
		have[s.pkg] = true
	}
	for pkg, allowed := range ours {
		for _, p := range append([]string{pkg}, allowed...) {
			if !have[p] && !slices.ContainsFunc(keys(have), func(h string) bool { return within(h, p) }) {
				t.Errorf("the table names %s, which is not there", p)
			}
		}
	}
}

func TestEveryPackageSaysWhatItIsFor(t *testing.T) {
	has, any := map[string]bool{}, map[string]string{}
	for _, s := range sources(t) {
		if !s.test {
			has[s.pkg] = has[s.pkg] || s.comment
			any[s.pkg] = s.file
		}
	}
	for pkg, file := range any {
		if !has[pkg] {
			t.Errorf("package %s (%s) has no package comment", pkg, file)
		}
	}
}

func sources(t *testing.T) []source {
	t.Helper()
	root := filepath.Join("..", "..")
	var out []source
	err := filepath.WalkDir(root, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && (d.Name() == "testdata" || p != root && strings.HasPrefix(d.Name(), ".") && d.Name() != "..") {
			return filepath.SkipDir
		}
		if d.IsDir() || !strings.HasSuffix(p, ".go") {
			return nil
		}
		f, err := parser.ParseFile(token.NewFileSet(), p, nil, parser.ImportsOnly|parser.ParseComments)
		if err != nil {
			return err
		}
		rel, _ := filepath.Rel(root, filepath.Dir(p))
		out = append(out, source{
			pkg: filepath.ToSlash(rel), file: p, test: strings.HasSuffix(p, "_test.go"),
			comment: f.Doc != nil || ast.IsGenerated(f), imports: importPaths(f),
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(out) < 20 {
		t.Fatalf("read only %d files: the walk is wrong", len(out))
	}
	return out
}

func importPaths(f *ast.File) []string {
	var out []string
	for _, i := range f.Imports {
		p, _ := strconv.Unquote(i.Path.Value)
		out = append(out, p)
	}
	return out
}

// lookup finds the row of a package or of the nearest package above it.
func lookup(pkg string) ([]string, bool) {
	for p := pkg; p != "." && p != ""; p = path.Dir(p) {
		if a, ok := ours[p]; ok {
			return a, true
		}
	}
	return nil, false
}

// owner is the package whose row speaks for pkg: it and its sub-packages may
// import one another.
func owner(pkg string) string {
	for p := pkg; p != "." && p != ""; p = path.Dir(p) {
		if _, ok := ours[p]; ok {
			return p
		}
	}
	return pkg
}

// within reports whether pkg is p or below it. The contract "runner" has
// substrates below it that are not part of it, and so has "plugin".
func within(pkg, p string) bool {
	if pkg == p {
		return true
	}
	if !strings.HasPrefix(pkg, p+"/") {
		return false
	}
	return owner(pkg) == owner(p)
}

// isTool: programs of the repository itself and whole-system tests.
func isTool(pkg string) bool {
	return strings.HasPrefix(pkg, "scripts/") || strings.HasPrefix(pkg, "bench/") || strings.HasPrefix(pkg, "e2e")
}

func keys(m map[string]bool) []string {
	var out []string
	for k := range m {
		out = append(out, k)
	}
	return out
}
