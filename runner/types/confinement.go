package types

// ConfinementClass names how strongly a sandbox is separated from its host.
// Classes are ordered by Rank, never by spelling.
type ConfinementClass string

const (
	// CC1 is a hardened container on the host's kernel (runc).
	CC1 ConfinementClass = "CC1"
	// CC2 is a container on a user-space kernel (gVisor's runsc).
	CC2 ConfinementClass = "CC2"
	// CC3 is a microVM with a kernel of its own (kata*, else krun).
	CC3 ConfinementClass = "CC3"
)

// Classes lists every known class, weakest first.
func Classes() []ConfinementClass { return []ConfinementClass{CC1, CC2, CC3} }

// Rank orders classes: CC1 is 1, CC2 is 2, CC3 is 3. Every other string,
// the empty one and other spellings included, is 0 and satisfies no minimum.
func (c ConfinementClass) Rank() int {
	switch c {
	case CC1:
		return 1
	case CC2:
		return 2
	case CC3:
		return 3
	}
	return 0
}
