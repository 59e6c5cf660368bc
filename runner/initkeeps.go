package runner

import "syscall"

// InitKeeps reports whether a sandbox's init takes a signal for its own and
// passes it on to nobody: its children's ends, its runtime's and what is about its
// own writes and terminal.
func InitKeeps(s syscall.Signal) bool {
	switch s {
	case syscall.SIGCHLD, syscall.SIGURG, syscall.SIGPIPE, syscall.SIGTTIN, syscall.SIGTTOU:
		return true
	}
	return false
}
