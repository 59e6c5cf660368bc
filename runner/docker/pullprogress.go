package docker

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// pullMessage is one word of the engine's about a pull or a load.
type pullMessage struct {
	ID     string `json:"id"` // of a layer
	Status string `json:"status"`
	Detail struct {
		Current int64 `json:"current"`
		Total   int64 `json:"total"`
	} `json:"progressDetail"`
	Error       string `json:"error"`
	ErrorDetail struct {
		Message string `json:"message"`
	} `json:"errorDetail"`
}

// followPull reads the engine's messages until the end; the last word may be
// an error. Everything the engine says counts as progress.
func followPull(r io.Reader, progress func(pullMessage)) error {
	d := json.NewDecoder(r)
	for {
		var m pullMessage
		switch err := d.Decode(&m); {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
		if text := firstOf(m.ErrorDetail.Message, m.Error); text != "" {
			return errors.New(text)
		}
		progress(m)
	}
}

// pullProgress adds up how much of the layers is there. A layer's size is
// known when its download begins.
type pullProgress struct {
	layers    map[string]layerProgress
	unpacking bool
}

type layerProgress struct{ done, total int64 }

func (p *pullProgress) note(m pullMessage) {
	if m.ID == "" {
		return
	}
	if p.layers == nil {
		p.layers = map[string]layerProgress{}
	}
	l := p.layers[m.ID]
	switch m.Status {
	case "Downloading":
		l = layerProgress{m.Detail.Current, m.Detail.Total}
	case "Download complete", "Pull complete", "Verifying Checksum":
		l.done = l.total
	case "Extracting":
		l.done, p.unpacking = l.total, true
	default:
		return
	}
	p.layers[m.ID] = l
}

func (p *pullProgress) String() string {
	var done, total int64
	for _, l := range p.layers {
		done, total = done+l.done, total+max(l.total, l.done)
	}
	s := fmt.Sprintf("%d of %d MiB", done/mib, (total+mib-1)/mib)
	if p.unpacking {
		s += ", unpacking"
	}
	return s
}
