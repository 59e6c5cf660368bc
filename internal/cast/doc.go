// Package cast keeps recordings of terminals in the format asciicast v2, which
// asciinema plays: a line of JSON that describes the recording, then one line
// for each event.
//
// A recording is written while it is made, line by line, so that what was
// recorded before a crash is there after it, and is gone on with. It has a
// bound: its beginning and its end are kept, in files of their own that each
// play by themselves, and what lies between is said to be missing. Values that
// are secret are hidden before anything is written. A recording that cannot be
// written says how much is missing, once it can be again.
package cast
