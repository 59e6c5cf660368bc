package archtest

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	testFunc = regexp.MustCompile(`(?m)^func ((?:Test|Fuzz)\w+)\(`)
	testName = regexp.MustCompile(`\b(?:Test|Fuzz)[A-Z]\w+`)
)

// TestThreatModelNamesWhatExists: every test that the page names is there, and
// every numbered mistake and weakness has its line.
func TestThreatModelNamesWhatExists(t *testing.T) {
	root := filepath.Join("..", "..")
	page, err := os.ReadFile(filepath.Join(root, "docs", "threat-model.md"))
	if err != nil {
		t.Fatal(err)
	}
	have := map[string]bool{}
	for _, s := range sources(t) {
		if !s.test {
			continue
		}
		b, err := os.ReadFile(s.file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range testFunc.FindAllStringSubmatch(string(b), -1) {
			have[m[1]] = true
		}
	}
	for _, name := range testName.FindAllString(string(page), -1) {
		if !have[name] {
			t.Errorf("the page names %s, which is not there", name)
		}
	}
	numbers := map[string]int{"B": 62, "S": 93, "": 8}
	for letter, last := range numbers {
		for n := 1; n <= last; n++ {
			if row := fmt.Sprintf("\n| %s%d |", letter, n); !strings.Contains(string(page), row) {
				t.Errorf("the page has no line for %s%d", letter, n)
			}
		}
	}
}
