package keeper

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"

	"golang.org/x/sys/unix"

	"github.com/wardyn/nomad-driver-wardyn/internal/cast"
)

// The protocol: one request a connection, one packet each way (SOCK_SEQPACKET),
// JSON with descriptors beside it.

// request is what a client asks for.
type request struct {
	Op string `json:"op"` // keeper: follow, status, wait, hide, recorded, finish; holder: hold, release, watch; both: list, quit
	ID string `json:"id,omitempty"`

	// For follow and, the first two, for hold. The descriptors are, in this order: the attach connection
	// when Live, then a file when EarlyLength, then one for each gap that has a Length.
	Stdout   string `json:"stdout,omitempty"`
	Stderr   string `json:"stderr,omitempty"`
	Position string `json:"position,omitempty"`
	Framed   bool   `json:"framed,omitempty"`
	Live     bool   `json:"live,omitempty"`
	// Early and then the file's first EarlyLength bytes were read off the
	// connection already.
	Early       []byte `json:"early,omitempty"`
	EarlyLength int64  `json:"early_length,omitempty"`
	Gaps        [2]gap `json:"gaps"`

	// For follow: the recording to make beside it. nil is none.
	Record *cast.Options `json:"record,omitempty"`

	// For hide: secrets that the recording is not to show.
	Secrets []string `json:"secrets,omitempty"`

	// For recorded: how what was recorded ended.
	Ended string `json:"ended,omitempty"`

	// For finish: how long to let the rest flow out.
	FlushMillis int64 `json:"flush_ms,omitempty"`
}

// gap is what one stream gets before live output.
type gap struct {
	// Lost bytes will never be delivered; they count as delivered.
	Lost int64 `json:"lost,omitempty"`
	// Note is a line of ours, not counted.
	Note string `json:"note,omitempty"`
	// Offset and Length say which part of the descriptor's file to deliver.
	Offset int64 `json:"offset,omitempty"`
	Length int64 `json:"length,omitempty"`
	// Skip is the number of bytes at the start of live output that the gap
	// (or what came before it) already holds.
	Skip int64 `json:"skip,omitempty"`
}

// response is the answer; Error is "" when the request was met.
type response struct {
	Error  string   `json:"error,omitempty"`
	Status Status   `json:"status"`
	IDs    []string `json:"ids,omitempty"`
}

// State is where a task's output stands.
type State string

const (
	// Unknown: the keeper has never heard of the task, or has been told to forget it.
	Unknown State = "unknown"
	// Following: output is being carried.
	Following State = "following"
	// Ended: the main process's streams came to a clean end, and all of it was delivered.
	Ended State = "ended"
	// Broken: the connection failed in the middle; the engine's log has the rest.
	Broken State = "broken"
)

// Status is a task's state and how much of each stream has been delivered.
type Status struct {
	State     State    `json:"state"`
	Delivered [2]int64 `json:"delivered"`
	Reason    string   `json:"reason,omitempty"`
	// Unrecorded says why some of it is not in the recording; "" when all of it is.
	Unrecorded string `json:"unrecorded,omitempty"`
}

const maxPacket = 128 << 10

func send(c *net.UnixConn, v any, fds ...int) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	if len(b) > maxPacket {
		return fmt.Errorf("keeper: message of %d bytes", len(b))
	}
	var oob []byte
	if len(fds) > 0 {
		oob = unix.UnixRights(fds...)
	}
	_, _, err = c.WriteMsgUnix(b, oob, nil)
	return err
}

// receive reads one packet into v and returns the descriptors that came with
// it; the caller closes them.
func receive(c *net.UnixConn, v any) ([]*os.File, error) {
	b := make([]byte, maxPacket)
	oob := make([]byte, unix.CmsgSpace(4*4))
	n, oobn, _, _, err := c.ReadMsgUnix(b, oob)
	if err != nil {
		return nil, err
	}
	if n == 0 {
		return nil, errors.New("keeper: the other side hung up")
	}
	files, err := files(oob[:oobn])
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(b[:n], v); err != nil {
		closeAll(files)
		return nil, fmt.Errorf("keeper: malformed message: %w", err)
	}
	return files, nil
}

func files(oob []byte) ([]*os.File, error) {
	if len(oob) == 0 {
		return nil, nil
	}
	msgs, err := unix.ParseSocketControlMessage(oob)
	if err != nil {
		return nil, err
	}
	var out []*os.File
	for _, m := range msgs {
		fds, err := unix.ParseUnixRights(&m)
		if err != nil {
			continue
		}
		for _, fd := range fds {
			unix.CloseOnExec(fd)
			out = append(out, os.NewFile(uintptr(fd), "passed"))
		}
	}
	return out, nil
}

func closeAll(files []*os.File) {
	for _, f := range files {
		f.Close()
	}
}
