// Package rec is the engine of wardyn-rec, the one program of ours that runs
// inside a sandbox: its pid 1, the first process of every exec, and the probes
// that are run in throw-away containers. It runs as the task's user without
// any capability, under kernels that are not Linux, next to code nobody
// trusts; so it depends on nothing but the kernel's plain calls and believes
// nothing it is told but its own argv.
//
//	wardyn-rec init  [-tty] -- argv...              pid 1: reap, forward, exit as argv did
//	wardyn-rec init  -idle                          pid 1 without a command
//	wardyn-rec init  -stages FILE ...               ... after what the file says
//	wardyn-rec exec  [-cols N -rows N] ID -- argv...  first process of an exec
//	wardyn-rec kill  [-s SIG] ID                    end that exec
//	wardyn-rec -run ID [flags] -- argv...           record it, in the sandbox's own word
//	wardyn-rec probe                                does this runtime run programs right?
//	wardyn-rec netprobe [-timeout D] [-settle D] target...      what can be reached from here?
//	wardyn-rec listen target...                     something to be reached
//
// # Exit codes
//
// Of init and exec: the command's own code; 128+n when signal n ended it; 127
// when it was not found, 126 when it could not be executed, with one line
// "wardyn-rec: exec NAME: reason" on standard error. 2 is a usage error.
package rec
