package docker

// use is what a Runner remembers of the sandboxes it serves. Nothing in it is
// needed to find or to end a sandbox again. The zero value is ready for use.
type use struct {
	sinks sinks
}

// forget drops what is remembered of a sandbox that is gone.
func (u *use) forget(ref string) {
	u.sinks.drop(ref)
}
