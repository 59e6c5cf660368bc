// Package egress drives the built binary as a Nomad client does and looks at
// what its sandboxes may reach, with the programs and the eyes of whoever is in
// one: credentials, approvals, the git broker.
package egress
