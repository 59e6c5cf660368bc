// Package jobfile reads Nomad job files without Nomad.
//
// Parse turns the text of one job file into a Job: variables and locals
// resolved, functions called, and every reference that only a client can
// answer (${NOMAD_ALLOC_ID}, ${node.unique.id}, ${env["X"]} ...) kept as text,
// to be replaced per task once its environment is known.
//
// A job file may ask for more than one node without a cluster can give. What
// cannot be honoured is a Problem with its place in the file, and all of them
// are reported at once; what is harmless to leave out is a Note in Job.Ignored.
// The tables in rules.go say which is which.
//
// The driver's config block becomes the generic map that Nomad's own parser
// hands to a client: blocks and object literals are wrapped in lists, whole
// numbers are integers, the rest is left to the driver's schema.
package jobfile
