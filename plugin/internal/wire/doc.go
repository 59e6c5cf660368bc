// Package wire is Nomad's plugin protocol: the messages and services of a task driver, the
// handshake that starts one, and the rules a plugin must keep so that no answer of it can
// harm the client.
//
// The protocol is written down in proto/wardyn, since Nomad's own Go module is not imported.
// The generated code is in basepb, driverpb, hclspecpb and structspb; hclspec builds config
// schemas, hclconf decodes configuration the way a client does, msgpack reads the result.
//
// Both halves use this package: the plugin serves through [Serve], and the client half in
// plugin/host connects with [Handshake] and [ClientPlugins].
package wire

//go:generate ./generate.sh
