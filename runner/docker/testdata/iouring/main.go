// Iouring asks the kernel for an io_uring and says what it answered.
package main

import (
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"
)

func main() {
	var params [120]byte
	_, _, errno := unix.Syscall(unix.SYS_IO_URING_SETUP, 8, uintptr(unsafe.Pointer(&params)), 0)
	if errno == 0 {
		fmt.Println("given")
		return
	}
	fmt.Println(errno)
}
