#!/bin/sh
# Signs a document with a cluster key, as docs/openapi.yaml describes: sign.sh KEY.pem KIND < PAYLOAD > DOCUMENT
# PAYLOAD is canonical JSON: members sorted, no spaces, no newline at the end. It needs OpenSSL 3.
set -eu
base64url() { openssl base64 -A | tr '+/' '-_' | tr -d '='; }
work=$(mktemp -d)
trap 'rm -r "$work"' EXIT

# The last 32 bytes of the DER form of an Ed25519 public key are the key.
fingerprint=SHA256:$(openssl pkey -in "$1" -pubout -outform DER | tail -c 32 | openssl dgst -sha256 -binary | base64url)
header=$(printf '{"alg":"EdDSA","kid":"%s","typ":"bourse/%s+jws"}' "$fingerprint" "$2" | base64url)
printf '%s.%s' "$header" "$(base64url)" > "$work/text"
openssl pkeyutl -sign -inkey "$1" -rawin -in "$work/text" -out "$work/signature"
printf '%s.%s\n' "$(cat "$work/text")" "$(base64url < "$work/signature")"
