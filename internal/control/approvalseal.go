package control

import (
	"crypto/hmac"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/wardyn/nomad-driver-wardyn/internal/datadir"
	"github.com/wardyn/nomad-driver-wardyn/internal/taskpath"
)

// maxApprovalsFile is more than approvals can take on disk.
const maxApprovalsFile = 64 << 20

// seal is a digest of a text that only this installation can make, for one
// session.
type seal func(text string) string

// sealedApprovals is the content of the file.
type sealedApprovals struct {
	Approvals []Approval `json:"approvals"`
	Seal      string     `json:"seal"`
}

// sealFor makes a session's seal. One of another session does not hold.
func sealFor(d *datadir.Dir, o Owner) seal {
	return func(text string) string {
		return d.Proof(strings.Join([]string{"approvals", o.Alloc, o.Task, text}, "\x00"))
	}
}

// of is the seal of a list as it comes out of a file.
func (s seal) of(list []Approval) (string, error) {
	b, err := json.Marshal(list)
	if err != nil {
		return "", err
	}
	var read []Approval
	if err := json.Unmarshal(b, &read); err != nil {
		return "", err
	}
	if b, err = json.Marshal(read); err != nil {
		return "", err
	}
	return s(string(b)), nil
}

// readApprovals reads the file. One that this installation did not write for
// the session is an error.
func readApprovals(root *os.Root, s seal) ([]Approval, error) {
	f, err := taskpath.OpenRecord(root, approvalsName, os.O_RDONLY)
	if err != nil {
		return nil, ignoreMissing(err)
	}
	defer f.Close()
	var have sealedApprovals
	if err := json.NewDecoder(io.LimitReader(f, maxApprovalsFile)).Decode(&have); err != nil {
		return nil, fmt.Errorf("%s: %w", f.Name(), err)
	}
	want, err := s.of(have.Approvals)
	if err != nil || !hmac.Equal([]byte(want), []byte(have.Seal)) {
		return nil, errors.Join(fmt.Errorf("%s was not written by this driver for this task; remove it, or what of the job makes it", f.Name()), err)
	}
	return have.Approvals, nil
}
