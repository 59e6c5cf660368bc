package runner

import "time"

// Volume is a named volume of this instance, as a substrate lists it.
type Volume struct {
	Name    string
	Labels  map[string]string
	Created time.Time
	// Bytes is what its files take, counted when it was listed; -1 when that
	// could not be counted.
	Bytes int64
	// Users are the sandboxes that have it mounted, running or not.
	Users []string
}

// Image is an image that a sandbox was made into, as a substrate lists it.
type Image struct {
	Ref, ID string
	Labels  map[string]string
	Created time.Time
	Used    time.Time // when a task last started from it
	// Bytes is what it takes beyond the image it was made from.
	Bytes int64
	// Users are the sandboxes made from it, running or not.
	Users []string
}
