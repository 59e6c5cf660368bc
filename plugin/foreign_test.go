package plugin

import (
	"strings"
	"testing"
)

// TestForeignOptions (K40): an operator who brings options of another driver
// along is told of each what takes its place; a name that is nobody's gets the
// nearest one.
func TestForeignOptions(t *testing.T) {
	for name, instead := range foreign {
		config := map[string]any{name: true}
		if outer, inner, ok := strings.Cut(name, "."); ok {
			config = map[string]any{outer: []any{map[string]any{inner: true}}}
		}
		_, list := ReviewHostConfig(config)
		if len(list) != 1 || list[0].Field != name || list[0].Fix != instead {
			t.Errorf("%s: %v", name, list)
		}
	}
	_, list := ReviewHostConfig(map[string]any{"dataa_dir": "/x"})
	if len(list) != 1 || list[0].Fix != "did you mean data_dir?" {
		t.Errorf("a misspelt name: %v", list)
	}
}
