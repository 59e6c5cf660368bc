// Package seam finds the place where a stream of output goes on after the
// process that delivered it has died. Three pieces are at hand: how much was
// delivered and its last bytes; the engine's own log of the stream, whose head
// may have been rotated away; and what a fresh connection to the stream has
// brought since it was opened.
//
//	stream     ──────────────────────────────────────────────────►
//	delivered  ──────────────┤
//	log            ├──────────────────────────┤
//	connection                      ├─────────────────►
//	                         └ Start          └ Size
//	                                └ overlap ┘
//
// [Read] finds Start in the log, [Overlap] how many of the connection's first
// bytes the log has too. What is to be delivered is the log from Start to Size
// and then the connection without its overlap.
//
// Everything is found by content, because neither the log nor the connection
// says where in the stream it begins. So a stream that repeats itself leaves a
// choice; it is made such that bytes are rather delivered twice than lost. An
// engine's log replaces bytes that are not UTF-8; where such a stream is cut,
// a few bytes may be lost or come twice.
package seam
