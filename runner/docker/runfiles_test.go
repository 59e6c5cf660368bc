package docker

import "testing"

// A host's name with a domain is found by its first label as well, with a
// network and without.
func TestHostsFileNames(t *testing.T) {
	for name, want := range map[string]string{
		"web": "web", "web.example.org": "web.example.org web", "my_db.x": "my_db.x my_db",
	} {
		if _, hosts := runFiles(name, nil); hosts != "127.0.0.1 localhost\n127.0.1.1 "+want+"\n" {
			t.Errorf("%s: %q", name, hosts)
		}
	}
}
