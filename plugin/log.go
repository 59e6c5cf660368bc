package plugin

import (
	"context"
	"log/slog"
	"slices"

	"github.com/hashicorp/go-hclog"
)

// logHandler brings slog's records to the client's log. Below this package
// nobody knows of hclog.
type logHandler struct {
	to     hclog.Logger
	prefix string // of the groups that are open, each with a dot
}

var _ slog.Handler = logHandler{}

func newLogHandler(to hclog.Logger) slog.Handler { return logHandler{to: to} }

func level(l slog.Level) hclog.Level {
	switch {
	case l < slog.LevelDebug:
		return hclog.Trace
	case l < slog.LevelInfo:
		return hclog.Debug
	case l < slog.LevelWarn:
		return hclog.Info
	case l < slog.LevelError:
		return hclog.Warn
	}
	return hclog.Error
}

func (h logHandler) Enabled(_ context.Context, l slog.Level) bool {
	return level(l) >= h.to.GetLevel()
}

func (h logHandler) Handle(_ context.Context, r slog.Record) error {
	var args []any
	r.Attrs(func(a slog.Attr) bool {
		args = h.append(args, h.prefix, a)
		return true
	})
	h.to.Log(level(r.Level), r.Message, args...)
	return nil
}

func (h logHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	var args []any
	for _, a := range attrs {
		args = h.append(args, h.prefix, a)
	}
	return logHandler{to: h.to.With(args...), prefix: h.prefix}
}

func (h logHandler) WithGroup(name string) slog.Handler {
	if name == "" {
		return h
	}
	return logHandler{to: h.to, prefix: h.prefix + name + "."}
}

// append flattens groups: the client shows keys and values and nothing nested.
func (h logHandler) append(args []any, prefix string, a slog.Attr) []any {
	v := a.Value.Resolve()
	switch {
	case v.Kind() == slog.KindGroup:
		if a.Key != "" {
			prefix += a.Key + "."
		}
		for _, in := range v.Group() {
			args = h.append(args, prefix, in)
		}
		return args
	case a.Equal(slog.Attr{}):
		return args
	}
	value := v.Any()
	if err, ok := value.(error); ok {
		value = err.Error()
	}
	return slices.Concat(args, []any{prefix + a.Key, value})
}
