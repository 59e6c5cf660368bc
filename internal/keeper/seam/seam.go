// Package seam finds where an interrupted copy of a stream goes on: in the
// stream's log, by the number of bytes delivered and the last of them, and
// between that log and a fresh attach to the living stream. It is pure.
package seam

import "bytes"

// Cut finds the first byte of log that has not been delivered. delivered is
// the number of bytes handed on so far and tail the end of them; log is what
// the stream's log still holds, whose head may have been rotated away.
//
// lost is the number of bytes between the end of what was delivered and the
// start of the log: 0 when none, Unknown when the log does not tell.
func Cut(delivered int64, tail, log []byte) (at int, lost int64) {
	if delivered == 0 {
		return 0, 0
	}
	// An intact log holds the tail right where it was delivered.
	if d := int(delivered); delivered <= int64(len(log)) && d >= len(tail) && bytes.Equal(log[d-len(tail):d], tail) {
		return d, 0
	}
	if len(log) == 0 {
		return 0, 0 // nothing there and nothing known to be missing
	}
	// A log that lags behind the copy ends inside the tail.
	if start := delivered - int64(len(tail)); delivered > int64(len(log)) && start <= int64(len(log)) && bytes.HasPrefix(tail, log[start:]) {
		return len(log), 0
	}
	// A rotated one holds it somewhere. With output that repeats itself there
	// may be several places: the first loses nothing.
	if i := bytes.Index(log, tail); len(tail) > 0 && i >= 0 {
		return i + len(tail), 0
	}
	// Rotation may have cut into the tail itself: the log then starts with an
	// end of it. Short matches are chance.
	for n := len(tail) - 1; n >= minOverlap; n-- {
		if bytes.HasPrefix(log, tail[len(tail)-n:]) {
			return n, 0
		}
	}
	return 0, Unknown
}

// Unknown is a loss that cannot be counted.
const Unknown = -1

// minOverlap is the shortest match between a cut tail and a rotated log that
// is not taken for chance.
const minOverlap = 64

// Skip is the number of bytes at the start of live that log already holds.
// live is what a fresh attach has given so far, log what was read after the
// attach: so the bytes both have seen are at live's start and reach to log's
// end, or log goes on beyond what live has given yet. Output that repeats
// itself may match at several places; the longest match is taken. A match of a
// few bytes is taken for chance: repeating a few bytes is better than losing
// them.
func Skip(log, live []byte) int {
	if len(live) < minSkip {
		return 0
	}
	fail := failures(live)
	k := 0
	for i, c := range log {
		for k > 0 && c != live[k] {
			k = fail[k-1]
		}
		if c == live[k] {
			k++
		}
		if k == len(live) {
			return len(log) - (i + 1 - k)
		}
	}
	if k < minSkip {
		return 0
	}
	return k
}

// minSkip is the shortest match that Skip believes in.
const minSkip = 16

// failures is the failure function of Knuth, Morris and Pratt.
func failures(pattern []byte) []int {
	fail := make([]int, len(pattern))
	for i, k := 1, 0; i < len(pattern); i++ {
		for k > 0 && pattern[i] != pattern[k] {
			k = fail[k-1]
		}
		if pattern[i] == pattern[k] {
			k++
		}
		fail[i] = k
	}
	return fail
}
