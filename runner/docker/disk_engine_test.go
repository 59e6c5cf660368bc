package docker

import (
	"testing"

	"github.com/wardyn/nomad-driver-wardyn/internal/testenv"
)

// K37: what a sandbox writes is measured, under both runtimes, also where it has
// made paths that are too long for the engine, and what it holds without a name.
func TestK37DiskUsage(t *testing.T) {
	eachRuntime(t, func(t *testing.T, rt string) {
		w := newWorld(t)
		w.assumeWorks(t, classFor(rt), rt)
		spec := specFor(t, rt)
		spec.Task.User = ""
		spec.Task.Argv = sh("n=$(head -c 250 /dev/zero | tr '\\0' x); cd /root; i=0; while [ $i -lt 20 ]; do mkdir $n; cd $n; i=$((i+1)); done; " +
			"dd if=/dev/zero of=big bs=1M count=8 2>/dev/null; exec 3>/root/gone; dd if=/dev/zero bs=1M count=24 >&3 2>/dev/null; sync; rm /root/gone; exec sleep 98765")
		ref := w.startedSandbox(t, spec)
		testenv.Eventually(t, "both files to be measured", func() bool {
			n, err := w.DiskUsage(t.Context(), ref)
			if err != nil {
				t.Fatal(err)
			}
			return n >= 32*mib && n < 64*mib
		})
	})
}
