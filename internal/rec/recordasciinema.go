package rec

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// recordWithAsciinema has the image's asciinema record. It is a program of its
// own, run and never linked. It tells nobody how the command ended and passes no
// signals on, so the command's shell leaves both code and process id in files.
func recordWithAsciinema(a recordArgs, s *signals, program string) int {
	base := filepath.Join(a.castDir, a.run)
	for _, left := range []string{a.file(), base + exitSuffix, base + pidSuffix} {
		os.Remove(left)
	}
	args := []string{program, "rec", "-q", "-c", asciinemaCommand(base, a.argv)}
	if a.delivery != nil { // who masks: what is typed may be a password
		args = append(args, "--stdin")
	}
	if newAsciinema(program) {
		args = append(args, "--output-format", "asciicast-v2")
	}
	pid, serr := start(append(args, a.file()), inherited, nil)
	if serr != nil {
		return recordHere(a, s)
	}
	end := a.deliver()
	code := superviseTo(pid, func(sig syscall.Signal) {
		if sig != syscall.SIGWINCH { // the terminal has told asciinema itself
			syscall.Kill(numberIn(base+pidSuffix, pid), sig)
		}
	}, s, nil)
	end()
	return numberIn(base+exitSuffix, code)
}

const (
	exitSuffix = ".exit"
	pidSuffix  = ".pid"
)

// asciinemaCommand is the command line for asciinema's shell.
func asciinemaCommand(base string, argv []string) string {
	words := make([]string, len(argv))
	for i, w := range argv {
		words[i] = shellWord(w)
	}
	return `sh -c 'echo $$ >"$0` + pidSuffix + `"; exec "$@"' ` + shellWord(base) + " " + strings.Join(words, " ") +
		"; echo $? >" + shellWord(base+exitSuffix)
}

// shellWord is s as one word of a shell's command line.
func shellWord(s string) string {
	special := func(r rune) bool { return !plainLetter(r) && !strings.ContainsRune("@%+=:,./_-", r) }
	if s != "" && strings.IndexFunc(s, special) < 0 {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

// newAsciinema reports whether it is one of version 3 or later, which writes
// another format unless it is told.
func newAsciinema(program string) bool {
	out, err := exec.Command(program, "--version").Output()
	if err != nil {
		return false
	}
	words := strings.Fields(string(out))
	if len(words) == 0 {
		return false
	}
	major, _, _ := strings.Cut(words[len(words)-1], ".")
	n, err := strconv.Atoi(major)
	return err == nil && n >= 3
}

// numberIn is the number in a file, or what stands in for it.
func numberIn(path string, otherwise int) int {
	b, err := os.ReadFile(path)
	if err != nil {
		return otherwise
	}
	n, err := strconv.Atoi(strings.TrimSpace(string(b)))
	if err != nil {
		return otherwise
	}
	return n
}
