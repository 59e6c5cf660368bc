// Package runner is the contract of a governed sandbox: what is asked for
// ([SandboxSpec]), what can be done with it ([Runner] and its optional powers)
// and the pure helpers every substrate shares. It holds no word of Docker or
// of Nomad; the one substrate is runner/docker.
//
// # Life of a sandbox
//
//	CreateSandbox ──► STARTING ──Exec──► RUNNING ──exit──► STOPPED / FAILED
//	      │                                  │                    │
//	      └── error: nothing is left         └─ StopSandbox / KillSandbox ─► gone
//
// With a [TaskProcess] the task's command is the sandbox's main process:
// CreateSandbox leaves it created, Exec(ref, nil) attaches its output and
// starts it. Without one the main process idles ([AgentIdleScript]) and Exec
// starts the agent in it.
//
// # Glossary
//
//	run     one attempt of a task; RunID names it and everything it owns
//	ref     the handle of a sandbox, derived from the run id alone
//	agent   the governed process, and the container it lives in
//	sidecar the egress proxy beside it: the only address the agent can reach
//
// # Errors
//
// Every error of a substrate wraps one of the sentinels in this package where
// one fits; ask with errors.Is. ErrUnavailable means that the substrate could
// not be asked: never that a sandbox is gone and never that it exited.
package runner
