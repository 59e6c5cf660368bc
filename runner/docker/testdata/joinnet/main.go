// Joinnet runs the machine's ip with the arguments given, in a user namespace
// of its own, where a process may have every capability.
//
//	joinnet addr add ADDRESS/BITS dev eth0
package main

import (
	"fmt"
	"os"
	"os/exec"
	"syscall"
)

func main() {
	c := exec.Command("ip", os.Args[1:]...)
	c.Stdout, c.Stderr = os.Stdout, os.Stderr
	c.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}},
	}
	if err := c.Run(); err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
}
