// Package driver is the contract of a session: one governed sandbox plus what
// outlives its container (workspace, home, setup image, capacity slot). It
// decides existence; what happens inside a living sandbox is package runner's.
//
//	Create ──► running ──Suspend──► suspended ──Resume──► running
//	              │                     │
//	              └─ DestroyContainer ──┴──► gone   (the workspace survives)
//	              └─ Destroy ─────────────► gone   (the workspace goes too)
//
// # Glossary
//
//	session    what a user means by "my sandbox"; its id survives restarts
//	container  one incarnation of it; Handle.ID names it
//	workspace  the session's files, volume rainier-ws-<session>
//	home       an agent's home, shared by sessions, never removed by a teardown
//	ref        an image reference
package driver
