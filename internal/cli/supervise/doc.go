// Package supervise runs the tasks of one task group to their end: in the order
// of their lifecycle blocks, restarted by their restart policies, stopped with
// their kill signals and timeouts. How a task is started is the caller's; this
// package knows no plugin.
//
//	prestart ──ready──► main ──started──► poststart
//	                      │ all ended, one failed, the leader ended, or Stop
//	                      ▼
//	                everything stops ──► poststop
//
// A prestart task is ready when it ended well, a prestart sidecar when it runs.
package supervise
