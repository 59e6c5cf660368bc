package plugin

import (
	"maps"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/wardyn/nomad-driver-wardyn/plugin/internal/wire/driverpb"
	"github.com/wardyn/nomad-driver-wardyn/plugin/internal/wire/structspb"
)

// settleAfter is when a client has taken a stream's messages one by one for
// sure: before, it gathers what all plugins find first, for 50 seconds at most,
// and takes of each only the latest.
const settleAfter = time.Minute

// withdrawn is the value that an attribute has for a moment before it goes.
const withdrawn = "none"

// telling is what the client of one fingerprint stream is told of attributes.
//
// A client removes an attribute that comes empty and had a value in the message
// before. In the first message that it takes of a driver an empty attribute is
// kept: it counts as set to every constraint that asks for is_set. And it
// forgets the message before when a plugin dies, but not its attributes. So an
// empty attribute is sent only where this client had a value for it, and once
// the client has settled, all of them are sent with a value and then without:
// that removes what a plugin before this one told. The client reports to its
// servers seconds later, and so the end of it.
type telling struct {
	since   time.Time
	held    map[string]bool
	settled bool
}

// messages are what to send for one finding, in order.
func (t *telling) messages(full *driverpb.FingerprintResponse, now time.Time) []*driverpb.FingerprintResponse {
	switch {
	case full.Attributes == nil || t.settled:
		return []*driverpb.FingerprintResponse{full}
	case now.Sub(t.since) < settleAfter:
		return []*driverpb.FingerprintResponse{t.pruned(full)}
	}
	t.settled = true
	first := proto.Clone(full).(*driverpb.FingerprintResponse)
	for k, v := range first.Attributes {
		if empty(v) {
			first.Attributes[k] = &structspb.Attribute{Value: &structspb.Attribute_StringVal{StringVal: withdrawn}}
		}
	}
	return []*driverpb.FingerprintResponse{first, full}
}

// pruned is a message without the empty attributes that never had a value here.
func (t *telling) pruned(full *driverpb.FingerprintResponse) *driverpb.FingerprintResponse {
	out := proto.Clone(full).(*driverpb.FingerprintResponse)
	maps.DeleteFunc(out.Attributes, func(k string, v *structspb.Attribute) bool { return empty(v) && !t.held[k] })
	for k, v := range out.Attributes {
		t.held[k] = t.held[k] || !empty(v)
	}
	return out
}

func empty(a *structspb.Attribute) bool {
	s, ok := a.GetValue().(*structspb.Attribute_StringVal)
	return ok && s.StringVal == ""
}
