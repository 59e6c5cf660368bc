// Package cli is the command line of the driver binary.
//
// Main looks at how it was started: by Nomad, with its magic cookie in the
// environment, it serves the plugin; by a person it runs one of the commands
// in command.go. What the commands need from the rest of the program is handed
// in as Env, so that this package knows neither the plugin's server side nor
// an engine.
//
// The largest command is run: one allocation of a job file on this machine,
// through the same plugin protocol that a Nomad client speaks.
package cli
