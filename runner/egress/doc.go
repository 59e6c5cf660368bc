// Package egress holds the words that the sandbox runner, the control endpoint
// and the egress proxy share: decisions and their records, injection rules,
// approvals, and the sidecar's configuration with its strict parser.
//
// The verdict itself is not here; it lives with the proxy. Nothing in this
// package touches a socket.
package egress
