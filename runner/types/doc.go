// Package types holds the words both contracts use: confinement classes, run
// states, first-use modes and the run policy. It is a leaf: it imports nothing
// of this module.
package types
