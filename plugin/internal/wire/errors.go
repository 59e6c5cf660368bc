package wire

import (
	"context"
	"errors"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/wardyn/nomad-driver-wardyn/plugin/internal/wire/driverpb"
	"github.com/wardyn/nomad-driver-wardyn/plugin/internal/wire/structspb"
)

// TaskNotFoundText is the text every Nomad driver uses for a task id it does not know.
const TaskNotFoundText = "task not found for given id"

// ErrTaskNotFound is the answer to a call for a task id the plugin does not know.
var ErrTaskNotFound = status.Error(codes.NotFound, TaskNotFoundText)

// Recoverable returns err as a gRPC status that tells the client whether another attempt may
// succeed. The client looks for that detail on StartTask only; an error without it counts as
// final. A nil err stays nil.
func Recoverable(err error, recoverable bool) error {
	if err == nil {
		return nil
	}
	st := status.New(codes.FailedPrecondition, validText(err.Error()))
	detailed, derr := st.WithDetails(&structspb.RecoverableError{Recoverable: recoverable})
	if derr != nil {
		return st.Err()
	}
	return detailed.Err()
}

// IsRecoverable reads the detail back the way a client does: the first detail and only that.
func IsRecoverable(err error) bool {
	details := status.Convert(err).Details()
	if len(details) == 0 {
		return false
	}
	detail, ok := details[0].(*structspb.RecoverableError)
	return ok && detail.GetRecoverable()
}

// answerError is err of one method as it may cross the wire. Clients take the codes Unavailable
// and Canceled for the end of the plugin process and wait seconds for it, so a living plugin
// gives them only to a caller who has left. WaitTask alone may answer Canceled: with any other
// code a plugin that is going down would report its tasks as exited.
func answerError(ctx context.Context, method string, err error) error {
	if err == nil {
		return nil
	}
	if ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		return status.FromContextError(ctx.Err()).Err()
	}
	st, ok := status.FromError(err)
	if !ok {
		st = status.FromContextError(err)
	}
	p := st.Proto()
	p.Message = validText(p.GetMessage())
	switch {
	case st.Code() == codes.Canceled && method == driverpb.Driver_WaitTask_FullMethodName:
	case st.Code() == codes.Canceled, st.Code() == codes.Unavailable:
		p.Code = int32(codes.Unknown)
	}
	return status.FromProto(p).Err()
}

// validText replaces what is no UTF-8: protobuf refuses to send such a string at all.
func validText(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }
