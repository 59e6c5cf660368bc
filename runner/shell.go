package runner

// shellScript opens a shell: in the sandbox's one tmux session where the
// image has tmux, so that who comes back finds the terminal as it was, else as
// a shell of its own. A tmux that does not come to tell its version would not
// open one either, as in an image without any locale of UTF-8.
const shellScript = `shell=sh
command -v bash >/dev/null 2>&1 && shell=bash
if tmux -V >/dev/null 2>&1; then
  exec tmux new-session -A -s wardyn "$shell"
fi
exec "$shell" -i`

// shellEnv: in another locale tmux replaces what it takes for undrawable.
var shellEnv = []string{"TERM=xterm-256color", "LANG=C.UTF-8", "LC_ALL=C.UTF-8"}

// Shell is the process of an interactive shell in a sandbox, on a terminal.
func Shell(o AttachOptions) ExecSpec {
	return ExecSpec{
		Argv: []string{"/bin/sh", "-c", shellScript}, Env: shellEnv, TTY: true, Cols: o.Cols, Rows: o.Rows,
	}
}
