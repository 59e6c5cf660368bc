package plugin

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const (
	parityRefused = "<!-- refused -->\n"
	parityEnd     = "<!-- end of refused -->\n"
)

// Every option stands in docs/parity.md with a test that there is, and every
// bug of the list has one, or a sentence. The refused part is written by the
// driver: go test ./plugin -run TestOptionsPage -update-docs.
func TestOptionsPageParity(t *testing.T) {
	path := filepath.Join("..", "docs", "parity.md")
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	head, rest, _ := strings.Cut(string(b), parityRefused)
	table, tail, _ := strings.Cut(rest, parityEnd)
	if *updateDocs {
		if err := os.WriteFile(path, []byte(head+parityRefused+parityTable()+parityEnd+tail), 0o644); err != nil {
			t.Fatal(err)
		}
	} else if table != parityTable() {
		t.Errorf("docs/parity.md: the refused options are not what the driver says; run go test ./plugin -run TestOptionsPage -update-docs")
	}
	options, bugs, _ := strings.Cut(tail, "## Bugs")
	tests := testNames(t)
	var supported []string
	for name := range taskSpec().GetObject().GetAttributes() {
		if _, refused := declined[name]; !refused {
			supported = append(supported, name)
		}
	}
	checkRows(t, "task option", rowsOf(head), supported, tests)
	options, others, _ := strings.Cut(options, "What operators set")
	others, unnamed, _ := strings.Cut(others, "## Without an option")
	checkRows(t, "plugin option", rowsOf(options), slices.Collect(maps.Keys(configSpec().GetObject().GetAttributes())), tests)
	var numbers []string
	for n := 1; n <= 56; n++ {
		numbers = append(numbers, fmt.Sprint(n))
	}
	for n := 1; n <= 9; n++ {
		numbers = append(numbers, fmt.Sprint("J", n))
	}
	checkRows(t, "bug", rowsOf(bugs), append(numbers, "+"), tests)
	checkForeign(t, rowsOf(others), tests)
	if rows := rowsOf(unnamed); len(rows) == 0 {
		t.Error("docs/parity.md lacks what no option names")
	} else {
		for _, r := range rows {
			checkTests(t, r, tests, false)
		}
	}
}

var optionName = regexp.MustCompile("`([a-z_.]+)`")

// checkForeign: the rows have a test each, and their first cells are exactly the
// options of other drivers that this one knows of.
func checkForeign(t *testing.T, rows [][]string, tests map[string]bool) {
	t.Helper()
	var names []string
	for _, r := range rows {
		checkTests(t, r, tests, false)
		for _, m := range optionName.FindAllStringSubmatch(r[0], -1) {
			names = append(names, m[1])
		}
	}
	slices.Sort(names)
	if want := slices.Sorted(maps.Keys(foreign)); !slices.Equal(names, want) {
		t.Errorf("docs/parity.md has rows for other drivers' options\n%v\nand the driver knows\n%v", names, want)
	}
}

// rowsOf reads a table's rows as cells, without its head.
func rowsOf(text string) (out [][]string) {
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if !strings.HasPrefix(line, "| ") || strings.HasPrefix(line, "| option") || strings.HasPrefix(line, "| #") || strings.HasPrefix(line, "| there") {
			continue
		}
		cells := strings.Split(strings.Trim(line, "|"), " | ")
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		out = append(out, cells)
	}
	return out
}

// checkRows: the first cells are exactly the names, and each row has a test.
func checkRows(t *testing.T, what string, rows [][]string, names []string, tests map[string]bool) {
	t.Helper()
	var have []string
	for _, r := range rows {
		have = append(have, strings.Trim(r[0], "`"))
		checkTests(t, r, tests, what == "bug")
	}
	for _, n := range names {
		if !slices.Contains(have, n) {
			t.Errorf("docs/parity.md lacks a row for the %s %s", what, n)
		}
	}
	for i, n := range have {
		if !slices.Contains(names, n) || slices.Contains(have[:i], n) {
			t.Errorf("docs/parity.md: a row too many for the %s %s", what, n)
		}
	}
}

var testName = regexp.MustCompile("`(Test[A-Za-z0-9_]+)`")

// checkTests: a row's last cell names tests that there are. A bug may have a
// sentence instead, why it cannot happen.
func checkTests(t *testing.T, row []string, tests map[string]bool, sentence bool) {
	t.Helper()
	found := testName.FindAllStringSubmatch(row[len(row)-1], -1)
	if len(found) == 0 && !(sentence && len(row) > 2 && len(row[2]) > 30) {
		t.Errorf("docs/parity.md: %s has no test", row[0])
	}
	for _, m := range found {
		if !tests[m[1]] {
			t.Errorf("docs/parity.md: %s names %s, which there is not", row[0], m[1])
		}
	}
}

var testFunc = regexp.MustCompile(`(?m)^func (Test[A-Za-z0-9_]+)\(`)

// testNames are the tests of the whole repository.
func testNames(t *testing.T) map[string]bool {
	t.Helper()
	out := map[string]bool{}
	err := filepath.WalkDir("..", func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(p, "_test.go") {
			return err
		}
		b, err := os.ReadFile(p)
		for _, m := range testFunc.FindAllStringSubmatch(string(b), -1) {
			out[m[1]] = true
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func parityTable() string {
	var b strings.Builder
	b.WriteString("\n| option | here | tests |\n|---|---|---|\n")
	for _, name := range slices.Sorted(maps.Keys(declined)) {
		fmt.Fprintf(&b, "| `%s` | refused | `TestRefusedByName` |\n", name)
	}
	return b.String() + "\n"
}

// Every declined option is refused by its name, with its reason and what to do
// instead, in every spelling; one that asks for nothing is not.
func TestRefusedByName(t *testing.T) {
	for _, name := range slices.Sorted(maps.Keys(declined)) {
		for _, v := range []any{true, "true", 1, []any{"x"}, []any{map[string]any{"a": "b"}}, map[string]any{"a": "b"}} {
			_, err := planOf(t, map[string]any{name: v}, openHost)
			var f *faults
			if !errors.As(err, &f) || len(f.list) != 1 || f.list[0].Field != name || f.list[0].Reason == "" || f.list[0].Fix == "" {
				t.Errorf("%s = %v: %v", name, v, err)
			}
		}
		for _, v := range []any{nil, false, "", "false", 0, []any{}} {
			if _, err := planOf(t, map[string]any{name: v}, openHost); err != nil {
				t.Errorf("%s = %v asks for nothing: %v", name, v, err)
			}
		}
	}
}
