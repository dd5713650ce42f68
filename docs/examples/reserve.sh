#!/bin/sh
# Reserves one CPU for an hour at another cluster, over the broker's REST API (docs/openapi.yaml):
#   reserve.sh IDENTITY.json
# It prints the reservation once both clusters are bound. It needs curl, jq and OpenSSL 3.
# IDENTITY.json is a member's identity. An agent keeps it in the folder --identity-dir, or in a Secret:
#   kubectl -n bourse get secret bourse-identity -o json | jq '.data | map_values(@base64d)' > IDENTITY.json
set -eu
[ $# = 1 ] || { echo "usage: $0 IDENTITY.json" >&2; exit 2; }
umask 077
here=$(dirname "$0")
work=$(mktemp -d)
trap 'rm -r "$work"' EXIT

for part in tls.crt tls.key ca.crt cluster.key; do
	jq -er --arg part "$part" '.[$part]' "$1" > "$work/$part"
done
broker=$(jq -er '."broker-url"' "$1")
key=$(openssl rand -hex 16)

# call METHOD PATH [BODY] calls the broker with the member's certificate. An error is JSON, with a code and a fix.
call() {
	curl --silent --show-error --fail-with-body --request "$1" "$broker/apis/bourse.dev/v1alpha1$2" \
		--cert "$work/tls.crt" --key "$work/tls.key" --cacert "$work/ca.crt" --output "$work/answer" \
		--header "Idempotency-Key: $key" ${3+--header "Content-Type: application/json" --data "$3"} ||
		{ cat "$work/answer" >&2; exit 1; }
}
field() { jq -r "$1" "$work/answer"; }

# sign signs the assignment of the held reservation. kid is the fingerprint of the key that signed a document:
# here the provider's. Compare it with the one that you trust.
sign() {
	fingerprint=SHA256:$(openssl pkey -in "$work/cluster.key" -pubout -outform DER | tail -c 32 |
		openssl dgst -sha256 -binary | openssl base64 -A | tr '+/' '-_' | tr -d '=')
	jq -Scj --arg key "$fingerprint" '
		def kid: split(".")[0] | gsub("-"; "+") | gsub("_"; "/") | @base64d | fromjson.kid;
		{reservation: .id} + (.payload | {
			protocol: 2, issued: .created, generation, consumer, consumerKey: $key,
			provider, providerKey: (.providerCard | kid), pool, slice, resources, until,
			expires: (.approveBy // .heldUntil)
		})' "$work/answer" | sh "$here/sign.sh" "$work/cluster.key" assignment
}

# The broker decides and holds the capacity. A repeat with the same key reserves nothing more.
call POST /reservations '{"request": {"resources": {"cpu": "1"}, "duration": "1h"}}'
id=$(field .id)

# The reservation is Held until the consumer has signed and the provider has accepted. If the provider refuses,
# the broker holds capacity of the next one, and the consumer signs again. An agent follows GET /watch.
while [ "$(field .payload.state)" = Held ]; do
	if [ "$(field '.payload.assignment // empty')" = "" ]; then
		echo "$id is held at $(field .payload.provider)" >&2
		call POST "/reservations/$id/confirm" "{\"document\": \"$(sign)\"}"
	else
		sleep 1
		call GET "/reservations/$id"
	fi
done
jq . "$work/answer"
[ "$(field .payload.state)" = Reserved ]
