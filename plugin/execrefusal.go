package plugin

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"google.golang.org/grpc/status"

	"github.com/wardyn/nomad-driver-wardyn/plugin/internal/wire/driverpb"
	"github.com/wardyn/nomad-driver-wardyn/runner"
)

// mostRefusal is how long the error of an exec may be for users to see it, with
// what gRPC puts before it. Nomad passes it on as the reason of a WebSocket's
// close, which has room for 123 bytes, and drops what is longer: the user would
// read "unexpected EOF".
const mostRefusal = 123

// plainCauses are the ends of errors that tell people nothing.
var plainCauses = []string{runner.ErrPrecondition.Error(), errState.Error()}

// refuseExec is an error of an exec as it gets to the user: one that is too long
// is said whole on the command's stderr, and in short as the error.
func refuseExec(stream driverpb.Driver_ExecTaskStreamingServer, err error) error {
	s, ok := status.FromError(err)
	room := mostRefusal - len(fmt.Sprintf("rpc error: code = %s desc = ", s.Code()))
	if err == nil || !ok || len(s.Message()) <= room {
		return err
	}
	to := (&replies{stream: stream}).stderr()
	fmt.Fprintln(to, safeText(s.Message())) // whoever has left needs no reason
	return status.Error(s.Code(), shortened(s.Message(), room))
}

// shortened is the end of an error's text, where the cause is: as many of its
// parts as there is room for.
func shortened(text string, room int) string {
	parts := slices.DeleteFunc(strings.Split(text, ": "), func(p string) bool { return slices.Contains(plainCauses, p) })
	short := ""
	for _, p := range slices.Backward(parts) {
		longer := p
		if short != "" {
			longer = p + ": " + short
		}
		if len(longer) > room {
			break
		}
		short = longer
	}
	if short != "" {
		return short
	}
	cut := text[:room-len("...")]
	for !utf8.ValidString(cut) {
		cut = cut[:len(cut)-1]
	}
	return cut + "..."
}
