package runner

import (
	"fmt"
	"io"
	"time"
)

// ImageSource says how a task's image gets onto the node. The zero value pulls
// what is absent, with the credentials that the substrate has for the registry.
type ImageSource struct {
	// Auth are the task's own credentials; nil leaves the substrate's.
	Auth *RegistryAuth `json:"-"`
	// AuthSoftFail tries without credentials where they cannot be had or are
	// not accepted.
	AuthSoftFail bool
	// Always asks the registry for the image, also when it is present.
	Always bool
	// Timeout bounds how long this task waits for the image; 0 is the
	// substrate's limit. Others that want the same image wait on.
	Timeout time.Duration
	// Archive, when set, is loaded in place of a pull. The substrate reads it
	// from its start, more than once.
	Archive io.ReadSeeker `json:"-"`
	// Notify takes sentences for people about what goes on; nil drops them. It
	// must not block.
	Notify func(sentence string) `json:"-"`
}

// Tell passes a sentence to Notify.
func (s ImageSource) Tell(format string, args ...any) {
	if s.Notify != nil {
		s.Notify(fmt.Sprintf(format, args...))
	}
}

// RegistryAuth are credentials for an image's registry. They are shown nowhere.
type RegistryAuth struct {
	Username, Password string
	// Server is the registry they are for; "" is the image's.
	Server string
}

// Format keeps the credentials out of every print, whatever its verb.
func (RegistryAuth) Format(f fmt.State, _ rune) { io.WriteString(f, "(credentials)") }
