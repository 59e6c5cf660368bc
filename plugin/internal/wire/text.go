package wire

import (
	"unicode/utf8"

	"google.golang.org/protobuf/reflect/protoreflect"
)

// makeTextValid replaces every string of m and below that is no UTF-8. Engine and sandbox
// output reaches answers (descriptions, events, errors), and one bad byte would turn the
// whole answer into an internal error.
func makeTextValid(m protoreflect.Message) {
	m.Range(func(fd protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		switch {
		case fd.IsMap():
			makeMapValid(fd, v.Map())
		case fd.IsList():
			makeListValid(fd, v.List())
		case fd.Message() != nil:
			makeTextValid(v.Message())
		case isBadText(fd, v):
			m.Set(fd, protoreflect.ValueOfString(validText(v.String())))
		}
		return true
	})
}

func makeListValid(fd protoreflect.FieldDescriptor, l protoreflect.List) {
	for i := range l.Len() {
		switch v := l.Get(i); {
		case fd.Message() != nil:
			makeTextValid(v.Message())
		case isBadText(fd, v):
			l.Set(i, protoreflect.ValueOfString(validText(v.String())))
		}
	}
}

func makeMapValid(fd protoreflect.FieldDescriptor, m protoreflect.Map) {
	key, val := fd.MapKey(), fd.MapValue()
	var badKeys []protoreflect.MapKey // renamed afterwards: a range may only touch its own key
	m.Range(func(k protoreflect.MapKey, v protoreflect.Value) bool {
		switch {
		case val.Message() != nil:
			makeTextValid(v.Message())
		case isBadText(val, v):
			m.Set(k, protoreflect.ValueOfString(validText(v.String())))
		}
		if isBadText(key, k.Value()) {
			badKeys = append(badKeys, k)
		}
		return true
	})
	for _, k := range badKeys {
		v := m.Get(k)
		m.Clear(k)
		m.Set(protoreflect.ValueOfString(validText(k.String())).MapKey(), v)
	}
}

func isBadText(fd protoreflect.FieldDescriptor, v protoreflect.Value) bool {
	return fd.Kind() == protoreflect.StringKind && !utf8.ValidString(v.String())
}
