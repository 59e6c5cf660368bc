package runner

import "errors"

var (
	// ErrExecStreamUnsupported is returned by ExecStream where a substrate has
	// no such primitive. Callers skip on exactly this error.
	ErrExecStreamUnsupported = errors.New("runner: ExecStream not supported")

	// ErrNotFound: the sandbox, image or process does not exist.
	ErrNotFound = errors.New("not found")
	// ErrExists: something of that name exists already and is not ours to replace.
	ErrExists = errors.New("already exists")
	// ErrInvalid: the request can never succeed as it stands.
	ErrInvalid = errors.New("invalid")
	// ErrDenied: a rule of the operator or of this program forbids it.
	ErrDenied = errors.New("denied")
	// ErrPrecondition: the sandbox is in the wrong state, for instance suspended.
	ErrPrecondition = errors.New("precondition failed")
	// ErrUnavailable: the substrate could not be asked, or not in time. It says
	// nothing about the sandbox; try again.
	ErrUnavailable = errors.New("unavailable")
	// ErrExhausted: a pool (subnets, slots) is used up; try again later or elsewhere.
	ErrExhausted = errors.New("exhausted")
	// ErrClassUnavailable: no runtime on this host provides the class. Classes
	// are never downgraded.
	ErrClassUnavailable = errors.New("confinement class not available")
	// ErrUnsupported: this substrate has no such power.
	ErrUnsupported = errors.New("not supported")
	// ErrRuntimeCrashed: the sandbox's own runtime died; the exit code is not the task's.
	ErrRuntimeCrashed = errors.New("sandbox runtime crashed")
)
