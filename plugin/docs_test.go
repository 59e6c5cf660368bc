package plugin

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

var updateDocs = flag.Bool("update-docs", false, "rewrite the table of refused options in docs/options.md")

const refusedMark = "<!-- refused -->\n"

// Every option stands in docs/options.md, and the table of refused ones is what
// the driver says.
func TestOptionsPage(t *testing.T) {
	path := filepath.Join("..", "docs", "options.md")
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	page, table, _ := strings.Cut(string(b), refusedMark)
	if *updateDocs {
		if err := os.WriteFile(path, []byte(page+refusedMark+refusedTable()), 0o644); err != nil {
			t.Fatal(err)
		}
	} else if table != refusedTable() {
		t.Errorf("the table of refused options is not what the driver says; run go test ./plugin -run TestOptionsPage -update-docs")
	}
	var names []string
	names = slices.AppendSeq(names, maps.Keys(configSpec().GetObject().GetAttributes()))
	for name := range taskSpec().GetObject().GetAttributes() {
		if _, refused := declined[name]; !refused {
			names = append(names, name)
		}
	}
	names = append(names, slices.Sorted(maps.Keys(sysctls))...)
	for attr := range fingerprint("1", &finding{}).GetAttributes() {
		if !strings.HasPrefix(attr, "driver."+Name+".class.") || attr == "driver."+Name+".class.CC1" {
			names = append(names, attr)
		}
	}
	for _, name := range names {
		if !strings.Contains(page, "`"+name+"`") {
			t.Errorf("docs/options.md lacks %s", name)
		}
	}
}

func refusedTable() string {
	var b strings.Builder
	b.WriteString("\n| option | why | instead |\n|---|---|---|\n")
	for _, name := range slices.Sorted(maps.Keys(declined)) {
		fmt.Fprintf(&b, "| `%s` | %s | %s |\n", name, declined[name].reason, declined[name].instead)
	}
	return b.String()
}
