package driver

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
)

const (
	// workspacePrefix begins the name of every workspace volume.
	workspacePrefix = "rainier-ws-"
	// homePrefix begins the name of every home volume that a name was given.
	homePrefix = "rainier-home-"
	// WorkspacePath is where a session finds its workspace.
	WorkspacePath = "/workspace"
	// DefaultLabel is the label key that marks a session's sandbox.
	DefaultLabel = "wardyn.session"
	// NamespaceLabel is the label key that says whose a volume or sandbox is.
	// It is compared, never parsed out of a name.
	NamespaceLabel = "wardyn.namespace"
	// WorkspaceLabel is the label key that says which named workspace a sandbox
	// uses: one at a time does.
	WorkspaceLabel = "wardyn.workspace"
	// runLabel is the substrate's own label of a run.
	runLabel = "wardyn.run-id"
	// maxEscaped keeps a volume's name within a path element.
	maxEscaped = 200
)

// WorkspaceVolume is the name of a session's workspace volume; "" for a
// session without an id, since the bare prefix is a volume name as well.
func WorkspaceVolume(sessionID string) string {
	if sessionID == "" {
		return ""
	}
	return workspacePrefix + escape(sessionID)
}

// NamedWorkspace is the volume of a workspace that its users named. The name
// is made of the namespace too, so that no two namespaces meet in one.
func NamedWorkspace(namespace, name string) string {
	return workspacePrefix + escape(namespace+"\x00"+name)
}

// NamedHome is the volume of an agent's home.
func NamedHome(namespace, name string) string { return homePrefix + escape(namespace+"\x00"+name) }

// escape writes a session id in the characters a volume's name may have, so
// that no two ids meet in one name. An id made of those characters stays as it
// is. In any other each foreign byte, and "_" too, becomes "_" and two hex
// digits, and a final "__" says so; an id that has "__" itself is written this
// way as well. One too long for a name ends in a digest instead.
func escape(id string) string {
	if plain(id) && len(id) <= maxEscaped {
		return id
	}
	var b strings.Builder
	for i := range len(id) {
		if c := id[i]; c != '_' && nameByte(c) {
			b.WriteByte(c)
		} else {
			fmt.Fprintf(&b, "_%02x", c)
		}
	}
	if b.Len() <= maxEscaped {
		return b.String() + "__"
	}
	sum := sha256.Sum256([]byte(id))
	return b.String()[:maxEscaped] + "__" + hex.EncodeToString(sum[:8])
}

func plain(id string) bool {
	for i := range len(id) {
		if !nameByte(id[i]) {
			return false
		}
	}
	return !strings.Contains(id, "__")
}

func nameByte(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '.' || c == '-' || c == '_'
}
