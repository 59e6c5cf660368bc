// Package host runs the files of jobs/ and examples/ with the built binary's
// own "run" command: a whole sandbox, and no Nomad.
package host
