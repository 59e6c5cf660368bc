package identity

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestFilesAreOneUsers: a token is its user's to read and nobody else's, where
// that user is known; otherwise all can read it, as a client has it.
func TestFilesAreOneUsers(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root gives files to others")
	}
	for user, want := range map[string]struct {
		id   int
		mode os.FileMode
	}{
		"daemon": {1, ownMode}, "daemon:tty": {1, ownMode}, "4321": {4321, ownMode}, "4321:99": {4321, ownMode}, "root": {0, ownMode},
		"": {0, sharedMode}, "nobody-has-this-name": {0, sharedMode}, "-1": {0, sharedMode}, "4294967295": {0, sharedMode},
	} {
		p := place(t)
		p.User = user
		if err := p.write("secrets/x.jwt", "token"); err != nil {
			t.Fatal(err)
		}
		info, err := os.Stat(filepath.Join(p.Task, "secrets", "x.jwt"))
		if err != nil {
			t.Fatal(err)
		}
		if got := int(owner(info)); got != want.id || info.Mode() != want.mode {
			t.Errorf("user %q: owner %d, mode %v", user, got, info.Mode())
		}
	}
}

// TestFilesStayInside: what a task put in the way is replaced, not followed and
// not waited for, and nothing but the token is left.
func TestFilesStayInside(t *testing.T) {
	for name, c := range map[string]struct {
		plant func(p Place, victim string) error
		file  string
		fails bool
	}{
		"link":             {plant: func(p Place, victim string) error { return os.Symlink(victim, filepath.Join(p.Task, "local/x")) }},
		"hard link":        {plant: func(p Place, victim string) error { return os.Link(victim, filepath.Join(p.Task, "local/x")) }},
		"pipe":             {plant: func(p Place, _ string) error { return mkfifo(filepath.Join(p.Task, "local/x")) }},
		"link for the new": {plant: func(p Place, victim string) error { return os.Symlink(victim, filepath.Join(p.Task, "local/.x.new")) }},
		"pipe for the new": {plant: func(p Place, _ string) error { return mkfifo(filepath.Join(p.Task, "local/.x.new")) }},
		"directory":        {plant: func(p Place, _ string) error { return os.MkdirAll(filepath.Join(p.Task, "local/x/y"), 0o777) }, fails: true},
		"shared folder led astray": {file: "../alloc/data/x", fails: true, plant: func(p Place, victim string) error {
			if err := os.Remove(filepath.Join(p.Shared, "data")); err != nil {
				return err
			}
			return os.Symlink(filepath.Dir(victim), filepath.Join(p.Shared, "data"))
		}},
		"shared folder gone": {file: "../alloc/data/x", fails: true, plant: func(p Place, _ string) error { return os.Remove(filepath.Join(p.Shared, "data")) }},
	} {
		t.Run(name, func(t *testing.T) {
			p, file := place(t), c.file
			if file == "" {
				file = "local/x"
			}
			victim := filepath.Join(t.TempDir(), "x")
			if err := os.WriteFile(victim, []byte("precious"), 0o600); err != nil {
				t.Fatal(err)
			}
			if err := c.plant(p, victim); err != nil {
				t.Fatal(err)
			}
			err := p.write(file, "token")
			if (err != nil) != c.fails {
				t.Fatalf("write: %v", err)
			}
			if err != nil && strings.Contains(err.Error(), "token") {
				t.Errorf("the error tells the token: %v", err)
			}
			if got := read(t, victim); got != "precious" {
				t.Errorf("the file outside has become %q", got)
			}
			if c.fails {
				return
			}
			if got := read(t, filepath.Join(p.Task, file)); got != "token" {
				t.Errorf("the file is %q", got)
			}
			if all, err := os.ReadDir(filepath.Join(p.Task, "local")); err != nil || len(all) != 1 {
				t.Errorf("%v, %v", all, err)
			}
		})
	}
}
