package archtest

import (
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// lastEntry is the highest number of the catalogue of attacks and faults.
const lastEntry = 143

var (
	entryRow    = regexp.MustCompile(`(?m)^\| (E[0-9E, -]+) \|`)
	entryRange  = regexp.MustCompile(`\bE(\d+)(?:(?:-| to )E(\d+))?`)
	entryInName = regexp.MustCompile(`func (?:Test|Fuzz)\w*?E(\d+)`)
)

// Every entry of the catalogue has a test that names it, or a sentence on the
// page about egress; and the tests that the page names are there.
func TestCatalogueIsCovered(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "egress.md"))
	if err != nil {
		t.Fatal(err)
	}
	covered, tests := map[int]bool{}, testText(t)
	for _, row := range entryRow.FindAllStringSubmatch(string(page), -1) {
		cover(covered, row[1])
	}
	cover(covered, tests)
	for _, m := range entryInName.FindAllStringSubmatch(tests, -1) {
		cover(covered, "E"+m[1])
	}
	for n := 1; n <= lastEntry; n++ {
		if !covered[n] {
			t.Errorf("E%d has no test that names it and no row in docs/egress.md", n)
		}
	}
	for _, name := range testName.FindAllString(string(page), -1) {
		if !strings.Contains(tests, "func "+name+"(") {
			t.Errorf("docs/egress.md names %s, which is not there", name)
		}
	}
}

// cover marks the entries that a text names, ranges too.
func cover(covered map[int]bool, text string) {
	for _, m := range entryRange.FindAllStringSubmatch(text, -1) {
		from, _ := strconv.Atoi(m[1])
		to, _ := strconv.Atoi(m[2])
		for n := from; n <= max(from, to) && n <= lastEntry; n++ {
			covered[n] = true
		}
	}
}

// testText is the text of all tests but these.
func testText(t *testing.T) string {
	t.Helper()
	var b strings.Builder
	for _, s := range sources(t) {
		if !s.test || s.pkg == "internal/archtest" {
			continue
		}
		text, err := os.ReadFile(s.file)
		if err != nil {
			t.Fatal(err)
		}
		b.Write(text)
	}
	return b.String()
}
