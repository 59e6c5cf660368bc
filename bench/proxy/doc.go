// Command proxy measures wardyn-proxy beside other proxies, in interleaved runs
// on one machine: what a request, a tunnel and a gigabyte cost the proxy in CPU
// time, what it holds in memory, and what it adds to the slowest requests.
//
// Load generator, origin and proxies share the machine, so the figures that
// mean something are CPU per operation and their ratios, not operations per
// second. Peers that are not installed are named and left out.
//
//	go run -C bench/proxy . -wardyn path/to/wardyn-proxy
//
// The slowest requests are measured at a fixed rate, 500 a second over 200
// connections, so that a proxy that stalls cannot hide it by being asked less; at
// a proxy that ends TLS they are 200 open tunnels.
//
// It needs root, as wardyn-proxy binds the ports of its own leg.
package main
