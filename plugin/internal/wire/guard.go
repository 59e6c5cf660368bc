package wire

import (
	"context"
	"fmt"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
)

// guardUnary stands between the plugin's methods and the wire: an answer that would end the
// client becomes an error, text becomes valid UTF-8, and error codes with a second meaning
// are replaced.
func guardUnary(ctx context.Context, req any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
	resp, err := next(ctx, req)
	if err != nil {
		return nil, answerError(ctx, info.FullMethod, err)
	}
	if err := guardAnswer(resp); err != nil {
		return nil, err
	}
	return resp, nil
}

// guardStream does the same for every message of a stream.
func guardStream(srv any, stream grpc.ServerStream, info *grpc.StreamServerInfo, next grpc.StreamHandler) error {
	return answerError(stream.Context(), info.FullMethod, next(srv, guardedStream{stream}))
}

type guardedStream struct{ grpc.ServerStream }

func (g guardedStream) SendMsg(m any) error {
	if err := guardAnswer(m); err != nil {
		return err
	}
	return g.ServerStream.SendMsg(m)
}

func guardAnswer(m any) error {
	msg, ok := m.(proto.Message)
	if !ok {
		return status.Error(codes.Internal, fmt.Sprintf("answer of type %T is no message", m))
	}
	if err := CheckAnswer(msg); err != nil {
		return status.Error(codes.Internal, err.Error())
	}
	makeTextValid(msg.ProtoReflect())
	return nil
}
