package runner

import "github.com/google/uuid"

// AgentIdleScript is the main process of an idle sandbox, run as
// "sh -c AgentIdleScript". It installs the run's own CA when
// WARDYN_MITM_CA_PEM holds one, then sleeps for good while Exec does the work.
//
// The CA goes to /tmp/wardyn, which every user can write whatever the image:
// mitm-ca.pem is the certificate alone (for NODE_EXTRA_CA_CERTS, which adds to
// a trust store) and ca-bundle.pem the image's own roots followed by it (for
// SSL_CERT_FILE and its kin, which replace one). A file that cannot be written
// is left as it is: within a run its content is the same whoever wrote it.
//
// The sleep is a number because old busybox builds do not know "infinity".
const AgentIdleScript = `ca=${WARDYN_MITM_CA_PEM:-}
if [ -n "$ca" ]; then
  dir=/tmp/wardyn
  mkdir -p "$dir" 2>/dev/null
  chmod 1777 "$dir" 2>/dev/null
  { printf '%s\n' "$ca" >"$dir/mitm-ca.pem" && chmod 0644 "$dir/mitm-ca.pem"; } 2>/dev/null
  roots=
  for f in /etc/ssl/certs/ca-certificates.crt /etc/ssl/cert.pem /etc/pki/tls/certs/ca-bundle.crt; do
    if [ -f "$f" ]; then roots=$f; break; fi
  done
  if [ -z "$roots" ]; then
    echo 'wardyn: this image has no CA bundle; programs will trust the run CA only' >&2
  fi
  {
    {
      if [ -n "$roots" ]; then cat "$roots"; echo; fi
      printf '%s\n' "$ca"
    } >"$dir/ca-bundle.pem" && chmod 0644 "$dir/ca-bundle.pem"
  } 2>/dev/null
  if command -v update-ca-certificates >/dev/null 2>&1; then
    cp "$dir/mitm-ca.pem" /usr/local/share/ca-certificates/wardyn-mitm.crt 2>/dev/null &&
      update-ca-certificates >/dev/null 2>&1
  fi
fi
exec sleep 2147483647
`

// RecorderArgv wraps an agent's argv in the recorder, which is looked up on
// PATH and runs the agent as its child:
//
//	wardyn-rec -cast-dir DIR [-upload-url URL | -out-dir DIR] -run ID -- ARGV...
//
// Only the upload path masks secrets, so the two ways of delivery exclude each
// other: with an uploadURL the shared outDir is dropped. Call it only when
// recording is on; an unwrapped argv is argv itself.
func RecorderArgv(castDir, outDir, uploadURL string, runID uuid.UUID, agentArgv []string) []string {
	argv := []string{"wardyn-rec", "-cast-dir", castDir}
	switch {
	case uploadURL != "":
		argv = append(argv, "-upload-url", uploadURL)
	case outDir != "":
		argv = append(argv, "-out-dir", outDir)
	}
	argv = append(argv, "-run", runID.String(), "--")
	return append(argv, agentArgv...)
}
