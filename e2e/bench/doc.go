// Package bench compares this driver with the plain engine, in one interleaved
// run: what it prints are ratios, since the machines it runs on are noisy.
package bench
