// Package host is the client half of Nomad's plugin protocol: it launches a task driver plugin
// and drives it as a Nomad client does, call for call.
//
// [Launch] goes through the same steps as an agent: one process that is asked who it is and
// what configuration it takes, one that has the configuration tried on it, and one that stays
// and gets tasks. While that one lives its Fingerprint and TaskEvents streams are kept open.
// When it dies a new one is started; running tasks are handed to it with RecoverTask.
//
// Calls come in two layers. [Plugin] has a method for each call of the protocol. [Task] drives
// one task through its life the way a task runner does: directories, log collection,
// environment, configuration, start, wait, crash recovery, stop, destroy.
//
// A plugin can harm a real client with an answer. This package survives such an answer, turns
// it into an error and keeps it: see [Breach].
//
// The preparation of a task's surroundings is in the packages below: allocdir (directories),
// logmon (log collection) and taskenv (environment).
package host
