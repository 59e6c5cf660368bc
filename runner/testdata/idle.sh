ca=${WARDYN_MITM_CA_PEM:-}
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
