// Package checks runs the checks of a job's services, as a Nomad client and a
// Consul agent do between them: asks again and again, counts the answers into a
// status, and says when a task is to be restarted. Where a port is and how a
// command is run in a task is the caller's to say.
//
//	probe ──result──► health: how many in a row? ──► status ──► told when it changes
//	                                                   │ once a second
//	                                                   ▼
//	                                  patience: unwell for too long? ──► restart
package checks
