package identity

import (
	"io/fs"
	"syscall"
)

func mkfifo(file string) error { return syscall.Mkfifo(file, 0o600) }

func owner(info fs.FileInfo) uint32 { return info.Sys().(*syscall.Stat_t).Uid }
