package runner

import "time"

// Exit codes of a sandbox whose start failed in one of its stages. Commands
// use them too, so they say what happened only together with the log.
const (
	SetupFailed = 120
	CloneFailed = 121
	InitFailed  = 122
)

// Stage is one step of a sandbox's start. Stages run one after the other
// before the command, as the task's user, with the sandbox's environment and
// network. What one prints goes to the sandbox's output, each line after
// "[name] ". The first that fails ends the sandbox with its own exit code.
type Stage struct {
	Name string // a word: "setup", "clone", "init"
	// Script runs by its #! line, else under /bin/sh.
	Script []byte
	// Repos are cloned in order, in the place of a script.
	Repos []Repo
	// Timeout ends the stage, which has then failed; not positive is none.
	Timeout time.Duration
	// Code is the sandbox's exit code when the stage failed.
	Code int
}

// Repo is one repository to clone. A folder that holds a clone already is left
// as it is: it is somebody's work.
type Repo struct {
	URL    string `json:"url"`
	Branch string `json:"branch,omitempty"` // "" is the remote's default
	// NewBranch is made and checked out after the clone; "" stays on Branch.
	NewBranch string `json:"new_branch,omitempty"`
	Dir       string `json:"dir"` // absolute
	// AuthorName and AuthorEmail are the identity of commits made in it.
	AuthorName  string `json:"author_name,omitempty"`
	AuthorEmail string `json:"author_email,omitempty"`
}
