package cli

import "regexp"

// plainError is an error of the plugin for people; what it was stays within.
type plainError struct{ error }

func (e *plainError) Error() string { return plain(e.error) }
func (e *plainError) Unwrap() error { return e.error }

// frame is what gRPC puts before a plugin's own words.
var frame = regexp.MustCompile(`rpc error: code = \w+ desc = `)

// plain is the text of an error without that, wherever it is wrapped.
func plain(err error) string { return frame.ReplaceAllString(err.Error(), "") }
