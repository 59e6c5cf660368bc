// Package identity issues the workload identities of a run: tokens that say
// which task of which job their bearer is, as a cluster's servers sign them and
// a client hands them out and renews them.
//
// The key is made for one run and exists in its memory alone: what it signed is
// believed by nobody who was not given its public half.
package identity
