// Package protocol drives the built binary as a Nomad client does, through
// plugin/host, with real sandboxes behind it: lifecycle, output, exec, recovery
// and what a client must never get as an answer. Faults are real too: plugin,
// keeper and containers are killed under running tasks.
package protocol
