// Package otlp sends copies of decision records to an OpenTelemetry collector,
// as log records over OTLP/HTTP in protobuf.
//
// A record is first written to a spool on disk and leaves it when the collector
// has acknowledged it, so neither a restart of the driver nor a collector that is
// away loses one. The spool is bounded, and each namespace and run has a share of
// it: what does not fit is counted, and the collector is told how many of which
// run's are missing. A record that the collector will not take is found among
// those beside it and counted likewise. One may arrive twice, after a crash or a
// lost answer: run, flow and kind tell which are the same.
//
// The OpenTelemetry SDK's batch processor drops what does not fit its queue
// without telling anybody but its own log, and keeps the queue in memory; hence
// the published protocol types with an own sender.
package otlp
