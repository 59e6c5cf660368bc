package rec

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// clone is one repository of a stage.
type clone struct {
	URL         string `json:"url"`
	Branch      string `json:"branch,omitempty"`
	NewBranch   string `json:"new_branch,omitempty"`
	Dir         string `json:"dir"`
	AuthorName  string `json:"author_name,omitempty"`
	AuthorEmail string `json:"author_email,omitempty"`
}

// gitEnv keeps git from asking anybody anything, and from fetching large files
// from hosts that the repository names.
var gitEnv = []string{"GIT_TERMINAL_PROMPT=0", "GIT_ASKPASS=true", "GIT_LFS_SKIP_SMUDGE=1"}

func (st *stage) cloneAll(s *signals) ending {
	for _, c := range st.Repos {
		if e := st.cloneOne(s, c); e != (ending{}) {
			return e
		}
	}
	return ending{}
}

// cloneOne clones into a folder beside the wanted one, which gets its name
// when all is done: a clone that broke off is never taken for one.
func (st *stage) cloneOne(s *signals, c clone) ending {
	if _, err := os.Lstat(filepath.Join(c.Dir, ".git")); err == nil {
		st.say("%s is there already and stays as it is", c.Dir)
		return ending{}
	}
	if left, err := os.ReadDir(c.Dir); err == nil && len(left) > 0 {
		return ending{err: fmt.Errorf("%s holds files and is no clone", c.Dir)}
	}
	part := c.Dir + ".cloning"
	if err := errors.Join(os.RemoveAll(part), os.MkdirAll(filepath.Dir(part), 0o777)); err != nil {
		return ending{err: err}
	}
	for _, argv := range c.commands(part) {
		if e := st.command(s, step{argv: argv, env: gitEnv}); e != (ending{}) {
			os.RemoveAll(part)
			return e
		}
	}
	if err := os.Remove(c.Dir); err != nil && !errors.Is(err, os.ErrNotExist) {
		return ending{err: err}
	}
	if err := os.Rename(part, c.Dir); err != nil {
		return ending{err: err}
	}
	st.say("cloned %s", c.Dir)
	return ending{}
}

// commands are git's part of a clone into dir.
func (c clone) commands(dir string) [][]string {
	get := []string{"git", "clone", "--quiet", "--depth", "1"}
	if c.Branch != "" {
		get = append(get, "--branch", c.Branch)
	}
	all := [][]string{append(get, "--", c.URL, dir)}
	in := func(args ...string) { all = append(all, append([]string{"git", "-C", dir}, args...)) }
	if c.NewBranch != "" {
		in("checkout", "--quiet", "-b", c.NewBranch)
	}
	if c.AuthorName != "" {
		in("config", "user.name", c.AuthorName)
	}
	if c.AuthorEmail != "" {
		in("config", "user.email", c.AuthorEmail)
	}
	return all
}
