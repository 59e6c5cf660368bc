package rec

import (
	"runtime"
	"sync"
)

const (
	// mostParallel bounds how many of our threads run at once, whatever the
	// number of CPUs: we copy and wait.
	mostParallel = 2
	// spareThreads is more than ever wait in the kernel at once: for signals, to
	// read what is typed, and to write each stream.
	spareThreads = 6
)

// makeThreads makes the threads that this process may come to need, before
// anything of the task's runs. A task can use up all the processes that its
// sandbox may have, and Go's runtime ends the program where it cannot get a
// thread that it needs: pid 1, and the sandbox with it. Once made, a thread
// stays.
func makeThreads() {
	runtime.GOMAXPROCS(min(mostParallel, runtime.GOMAXPROCS(0)))
	var made, gone sync.WaitGroup
	release := make(chan struct{})
	made.Add(spareThreads)
	for range spareThreads {
		gone.Go(func() {
			runtime.LockOSThread() // while it waits, others need another thread
			defer runtime.UnlockOSThread()
			made.Done()
			<-release
		})
	}
	made.Wait()
	close(release)
	gone.Wait()
}
