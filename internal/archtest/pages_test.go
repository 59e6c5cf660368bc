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
	// suiteNames finds checks of a suite: "suite: ONE, TWO".
	suiteNames = regexp.MustCompile(`suite: (\w+(?:, \w+)*)`)
)

// pages are those that name tests, with how far the numbers go of which each
// has a line. "" are the invariants.
var pages = map[string]map[string]int{
	"threat-model.md": {"B": 62, "S": 93, "": 8},
	"sessions.md":     {"D": 57, "W": 17},
	"runner.md":       {"T": 58, "R": 69, "C": 28},
}

// TestPagesNameWhatExists: every test that such a page names is there, every
// check of a suite too, and every numbered point has its line.
func TestPagesNameWhatExists(t *testing.T) {
	have := map[string]bool{}
	var suites strings.Builder
	for _, s := range sources(t) {
		b, err := os.ReadFile(s.file)
		if err != nil {
			t.Fatal(err)
		}
		if !s.test {
			suites.Write(b)
			continue
		}
		for _, m := range testFunc.FindAllStringSubmatch(string(b), -1) {
			have[m[1]] = true
		}
	}
	for name, numbers := range pages {
		b, err := os.ReadFile(filepath.Join("..", "..", "docs", name))
		if err != nil {
			t.Fatal(err)
		}
		page := string(b)
		for _, test := range testName.FindAllString(page, -1) {
			if !have[test] {
				t.Errorf("%s names %s, which is not there", name, test)
			}
		}
		for _, list := range suiteNames.FindAllStringSubmatch(page, -1) {
			for _, check := range strings.Split(list[1], ", ") {
				if !strings.Contains(suites.String(), `"`+check+`":`) {
					t.Errorf("%s names the check %s, which no suite has", name, check)
				}
			}
		}
		for letter, last := range numbers {
			for n := 1; n <= last; n++ {
				if row := fmt.Sprintf("\n| %s%d |", letter, n); !strings.Contains(page, row) {
					t.Errorf("%s has no line for %s%d", name, letter, n)
				}
			}
		}
	}
}
