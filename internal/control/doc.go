// Package control is the plugin's side of the sidecars' control socket.
//
// Each run has a socket of its own in a folder that is mounted into that run's
// sidecar alone, so whoever speaks on it speaks for that run; the run's token
// says so a second time. The sidecar fetches its configuration there, says
// when it listens, and delivers its decisions, which end up in the task's
// folder for people to read:
//
//	decisions.jsonl     one line a record, see [Record]
//	decisions.1.jsonl   the older half, once the first is full
//	summary.json        counts, written when the run's socket closes
//
// # Life of a run
//
//	Prepare ──► Open ──► (sidecar: config, ready, decisions ...) ──► Close ──► Forget
//	               ▲                                                   │
//	               └──────── Resume, in a new process ◄── process ends ┘
//
// Open and Close are the substrate's, Prepare, Resume and Forget the task's
// owner's. What a new process needs to serve a run again is in the run's
// folder on tmpfs, readable by root alone.
package control
