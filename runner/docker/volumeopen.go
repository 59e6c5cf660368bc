package docker

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/wardyn/nomad-driver-wardyn/runner"
)

// openVolumes lets every user write to the top of the volumes that the agent
// mounts and that nothing has been put into: only the image knows who the
// task's user is, and nobody else can reach a volume. What the image had at
// their place has been copied by now, owner and all, and is left as it is.
func (b *build) openVolumes(ctx context.Context) error {
	if b.spec.Task == nil {
		return nil
	}
	for _, m := range b.spec.Task.Mounts {
		if m.Volume == "" {
			continue
		}
		v, err := b.inspectVolume(ctx, m.Volume)
		if err != nil {
			return err
		}
		if err := openEmpty(v.Mountpoint, b.host.Root); err != nil {
			return fmt.Errorf("volume %s: %w", m.Volume, err)
		}
	}
	return nil
}

// openEmpty makes an empty folder of root's writable for everyone. dir is on
// this host, below the engine's own folder.
func openEmpty(dir, engineRoot string) error {
	if engineRoot != "" && !strings.HasPrefix(filepath.Clean(dir), engineRoot+"/") {
		return fmt.Errorf("its files are at %s, outside %s, the engine's folder: %w", dir, engineRoot, runner.ErrUnsupported)
	}
	fd, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	f := os.NewFile(uintptr(fd), dir)
	defer f.Close()
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return err
	}
	if st.Uid != 0 || st.Mode&0o002 != 0 {
		return nil
	}
	if names, _ := f.Readdirnames(1); len(names) > 0 {
		return nil
	}
	return f.Chmod(0o777)
}
