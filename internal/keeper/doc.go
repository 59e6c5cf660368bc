// Package keeper carries the output of main processes to Nomad's log FIFOs,
// and goes on doing so while the plugin is away.
//
// One keeper process a node holds the write ends of all FIFOs. The plugin
// attaches to a main process before it starts and hands the attach connection
// itself over (as a file descriptor); the keeper takes the frames apart, writes
// them to the FIFOs and notes in a small mapped file how far it got. So the
// death of a plugin loses nothing, repeats nothing and ends no log. A second
// process, the holder, has the same FIFOs open and does nothing else, so that
// neither does the death of both.
//
// When the keeper dies, what it had not delivered is in the engine's own log.
// [Client.Resume] cuts that log at the noted position, joins it to a fresh
// attach (package seam) and hands both to a new keeper. What the engine's log
// no longer holds is counted and said in the log itself.
//
// A FIFO that nobody reads blocks its own task, as Nomad accepts, and nothing
// else: the end of a task never waits for it longer than it is told to.
package keeper
