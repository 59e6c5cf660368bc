package taskpath

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestK31Read(t *testing.T) {
	d := taskDirs(t)
	write(t, filepath.Join(d.Local(), "setup.sh"), "12345")
	if err := os.Symlink("/etc/hostname", filepath.Join(d.Local(), "link")); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		path string
		most int64
		want string // the text, or words of the refusal after "!"
	}{
		{"local/setup.sh", 5, "12345"},
		{"local/setup.sh", 4, "!more than 4 bytes"},
		{"local/link", 100, "!symbolic link"},
		{"local", 100, "!no regular file"},
		{"local/none", 100, "!no such file"},
	} {
		b, err := d.Read(Source{Path: c.path}, c.most)
		words, refused := strings.CutPrefix(c.want, "!")
		if refused != (err != nil) || refused && !strings.Contains(err.Error(), words) || !refused && string(b) != c.want {
			t.Errorf("%s, at most %d: %q, %v; want %q", c.path, c.most, b, err, c.want)
		}
	}
}
