package egress

import (
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/wardyn/nomad-driver-wardyn/internal/testenv"
)

// httpxFiles is Debian's httpx for its python.
func httpxFiles(*testing.T) (map[string]string, error) {
	files := map[string]string{}
	for _, name := range []string{"httpx", "httpcore", "h11", "h2", "anyio", "sniffio", "certifi", "idna", "rfc3986"} {
		module, err := testenv.Tree("/usr/lib/python3/dist-packages/"+name, func(name string) bool { return name == "__pycache__" })
		if err != nil && name != "h2" { // which it does without
			return nil, fmt.Errorf("package python3-httpx: %w", err)
		}
		maps.Copy(files, module)
	}
	return files, nil
}

// rubyFiles is Debian's ruby with as much of its library as net/http needs.
func rubyFiles(t *testing.T) (map[string]string, error) {
	found, err := filepath.Glob("/usr/lib/*/ruby/3.[0-9]*/openssl.so")
	if err != nil || len(found) == 0 {
		return nil, fmt.Errorf("no ruby of Debian's: %v", err)
	}
	native := filepath.Dir(found[0])
	files, err := testenv.Tree(filepath.Join("/usr/lib/ruby", filepath.Base(native)), func(name string) bool {
		return slices.Contains([]string{"rdoc", "irb", "bundler"}, name)
	})
	if err != nil {
		return nil, err
	}
	programs := []string{"/usr/bin/ruby", filepath.Join(native, "rbconfig.rb")}
	for _, name := range []string{"enc/encdb", "enc/trans/transdb", "monitor", "stringio", "strscan", "date_core", "socket",
		"io/wait", "io/nonblock", "zlib", "digest", "etc", "openssl"} {
		programs = append(programs, filepath.Join(native, name+".so"))
	}
	more, err := ifThere(t, programs...)
	maps.Copy(files, more)
	return files, err
}

// aptFiles are apt-get, its methods and the tables of what processors there are.
func aptFiles(t *testing.T) (map[string]string, error) {
	files, err := ifThere(t, "/usr/bin/apt-get", "/usr/lib/apt/methods/http", "/usr/lib/apt/methods/store")
	if err != nil {
		return nil, err
	}
	files["usr/lib/apt/methods/https"] = files["usr/lib/apt/methods/http"] // a link to it
	tables, err := testenv.Tree("/usr/share/dpkg", func(string) bool { return false })
	maps.Copy(files, tables)
	return files, err
}

// cargoFiles is cargo, not the link by which rustup chooses one.
func cargoFiles(t *testing.T) (map[string]string, error) {
	cargo, err := exec.LookPath("cargo")
	if err != nil {
		return nil, err
	}
	if real, err := filepath.EvalSymlinks(cargo); err != nil || filepath.Base(real) == "rustup" {
		out, err := exec.CommandContext(t.Context(), "rustup", "which", "cargo").Output()
		if err != nil {
			return nil, fmt.Errorf("rustup which cargo: %w", err)
		}
		cargo = strings.TrimSpace(string(out))
	}
	files, err := ifThere(t, cargo)
	if err != nil {
		return nil, err
	}
	program := files[strings.TrimPrefix(cargo, "/")]
	delete(files, strings.TrimPrefix(cargo, "/"))
	files["usr/bin/cargo"] = program
	return files, nil
}

// javaFiles is a runtime of this machine's JDK, cut down to what a client needs,
// below /opt/java, with the program Fetch.
func javaFiles(t *testing.T) (map[string]string, error) {
	compiler, err := exec.LookPath("javac")
	if err == nil {
		compiler, err = filepath.EvalSymlinks(compiler)
	}
	if err != nil {
		return nil, fmt.Errorf("no JDK: %w", err)
	}
	dir, bin := t.TempDir(), filepath.Dir(compiler)
	jre := filepath.Join(dir, "jre")
	for _, argv := range [][]string{
		{compiler, "-d", filepath.Join(dir, "classes"), "testdata/java/Fetch.java"},
		{filepath.Join(bin, "jlink"), "--add-modules", "java.base,jdk.crypto.ec", "--strip-debug", "--no-man-pages", "--no-header-files", "--output", jre},
	} {
		if out, err := exec.CommandContext(t.Context(), argv[0], argv[1:]...).CombinedOutput(); err != nil {
			return nil, fmt.Errorf("%v: %w: %s", argv, err, out)
		}
	}
	files, err := javaTree(t, jre)
	if err == nil {
		class, rerr := os.ReadFile(filepath.Join(dir, "classes", "Fetch.class"))
		files["opt/java/demo/Fetch.class"], err = string(class), rerr
	}
	return files, err
}

// javaTree is a runtime with the libraries that its programs are linked against,
// at /opt/java in place of where it lies.
func javaTree(t *testing.T, jre string) (map[string]string, error) {
	tree, err := testenv.Tree(jre, func(name string) bool { return slices.Contains([]string{"legal", "include"}, name) })
	if err != nil {
		return nil, err
	}
	maps.Copy(tree, testenv.Programs(t, filepath.Join(jre, "bin/java"), filepath.Join(jre, "lib/server/libjvm.so")))
	files := map[string]string{}
	for name, text := range tree {
		if below, ok := strings.CutPrefix("/"+name, jre+"/"); ok {
			name = path.Join("opt/java", below) // ldd spells some with ".."
		}
		files[name] = text
	}
	return files, nil
}
