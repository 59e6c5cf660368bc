// Package docker is the Docker substrate of package runner, and the only code
// of this module that talks to a Docker engine.
//
// A sandbox is three objects named after its run: a network with no way out, a
// sidecar with one leg on it and one on the node's egress network, and the
// agent's container on it alone. With a pool the first two come from a slot,
// made before anybody asked; pool.go says how slots live.
//
// hostconfig.go holds the pure functions that turn a SandboxSpec into what the
// engine is asked for; golden files show the result per confinement class.
package docker
