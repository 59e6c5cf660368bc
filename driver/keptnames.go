package driver

import (
	"encoding/hex"
	"strings"
)

// KeptName reads the name of a volume back: whether it is a "workspace", a
// "home" or a "volume" of a mount block, the namespace it was named in and its name there. A workspace of a
// single session has no namespace and the session's id for a name. A volume
// whose name was too long to be written out in full has its own for a name.
func KeptName(volume string) (kind, namespace, name string) {
	rest := volume
	for prefix, k := range map[string]string{workspacePrefix: "workspace", homePrefix: "home", namedPrefix: "volume"} {
		if r, ok := strings.CutPrefix(volume, prefix); ok {
			kind, rest = k, r
		}
	}
	whole, ok := unescape(rest)
	if !ok {
		return kind, "", volume
	}
	if ns, n, named := strings.Cut(whole, "\x00"); named {
		return kind, ns, n
	}
	return kind, "", whole
}

// unescape undoes escape where that can be undone.
func unescape(s string) (string, bool) {
	coded, ok := strings.CutSuffix(s, "__")
	if !ok {
		return s, !strings.Contains(s, "__")
	}
	var b strings.Builder
	for i := 0; i < len(coded); i++ {
		if coded[i] != '_' {
			b.WriteByte(coded[i])
			continue
		}
		if i+2 >= len(coded) {
			return "", false
		}
		c, err := hex.DecodeString(coded[i+1 : i+3])
		if err != nil {
			return "", false
		}
		b.Write(c)
		i += 2
	}
	return b.String(), true
}
