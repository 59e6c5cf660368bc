// Package nomad runs the files of jobs/ through real Nomad agents: one test,
// once for each binary found (NOMAD_BINS, else PATH).
package nomad
