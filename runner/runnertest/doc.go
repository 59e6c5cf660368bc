// Package runnertest tests what stands above and below the runner contract
// without an engine: [Fake] is a runner in memory, [Run] the suite every
// runner has to pass. The suite's own test is a set of liars, each of which
// breaks one rule and is caught by the check of that rule.
//
// A Fake keeps the contract: idempotent verbs, sentinels, back-pressure of
// unread output, gone is not failed. What its sandboxes run is Go: a [Program]
// looked up by the name of the command. Faults are injected with [Fake.SetFault].
//
// It also has the verbs a session driver wants of its engine (volumes, images,
// park and start), without knowing that package.
package runnertest
