// Package ports opens a task's inbound ports where Nomad says that they are,
// and hands the open sockets to the task's sidecar, which carries what arrives
// inward. The container engine publishes nothing.
//
// A socket belongs to the network namespace it was opened in, whoever holds
// it: the sidecar serves a port of the host without being on the host's
// network. Once handed over a socket is the sidecar's alone, so it goes on
// while the driver restarts, and closes with the sidecar. A sidecar says what
// it has and gets the rest, opened anew where need be.
package ports
