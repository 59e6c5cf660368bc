// Package plugin is everything Nomad: the task driver's RPCs, the schemas and
// options of its configuration, and the translation of a task into one
// driver.Spec. Nothing below it knows a word of Nomad.
//
// Each RPC decodes, builds one value and hands it down once. Existence goes to
// a driver.Driver, activity inside a living sandbox to a runner.Runner. Both,
// the control endpoint and the log keeper come from [Options].Build, which is
// called when the first call needs them and not before: a client starts the
// plugin several times while an older instance still manages tasks.
package plugin
