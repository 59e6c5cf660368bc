// Package plugin is everything Nomad: the task driver's RPCs, the schemas and
// options of its configuration, and the translation of a task into one
// driver.Spec. Nothing below it knows a word of Nomad.
//
// Each RPC decodes, builds one value and hands it down once. Existence goes to
// a driver.Driver, activity inside a living sandbox to a runner.Runner. Both,
// the control endpoint and the log keeper come from [Options].Build, which is
// called when the first call needs them and not before: a client starts the
// plugin several times while an older instance still manages tasks.
//
// A start goes through these files in turn:
//
//	options*.go, schema.go   the schemas of both configs, and what they decode to
//	spelling.go              the ways in which one value is commonly written
//	host*.go, rules_*.go     what the operator set and allows
//	ask*.go, options_*.go    what the author asks for, within that
//	given.go, ports.go       what Nomad gives beside the config
//	translate*.go            all of it judged and made one driver.Spec, a pure function
//	plan.go, launch.go       the plan of one task, and its being carried out
//	wait.go, recover.go, destroy.go   what becomes of it
//
// settings*.go tell the same plan to people, with who decided what.
package plugin
