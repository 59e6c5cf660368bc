package docker

import (
	"encoding/json"
	"sync"

	"github.com/moby/profiles/seccomp"
)

// engineClosesIOUring: from 25 on the engine's own filter leaves io_uring out.
func (f hostFacts) engineClosesIOUring() bool { return f.Major >= 25 }

// seccompProfile is the filter for engines whose own still opens io_uring,
// which has had many ways out of a container: the current default of the
// Moby project, which does not.
var seccompProfile = sync.OnceValue(func() string {
	b, err := json.Marshal(seccomp.DefaultProfile())
	if err != nil {
		panic(err) // a struct of strings and numbers, the same in every run
	}
	return string(b)
})
