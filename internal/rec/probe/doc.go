// Package probe holds the programs of throw-away containers: whether this
// runtime runs multi-threaded programs right, and what can be reached from
// inside a network. Their verdicts are JSON lines on standard output.
package probe
