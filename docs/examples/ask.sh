#!/bin/sh
# Asks the agent of your cluster a question (docs/reference/questions.md), as the user of your kubeconfig:
#   ask.sh NAMESPACE PATH, such as: ask.sh team-a /clusters
# It needs kubectl, curl and OpenSSL 3. If the agent runs in a pod, kubectl also needs to get pods in its namespace.
set -eu
[ $# = 2 ] || { echo "usage: $0 NAMESPACE PATH" >&2; exit 2; }
umask 077
work=$(mktemp -d) session=ask-$(openssl rand -hex 4) made= forward=
trap 'rm -r "$work"; [ -z "$forward" ] || kill "$forward"
	[ -z "$made" ] || kubectl -n "$1" delete session "$session" --wait=false >/dev/null' EXIT

# The Session holds the SHA-256 of your public key. The agent answers with that of its own, and where it listens.
openssl req -x509 -newkey ed25519 -nodes -keyout "$work/tls.key" -out "$work/tls.crt" -subj /CN=ask -days 1 2>/dev/null
key=$(openssl pkey -in "$work/tls.key" -pubout -outform DER | openssl dgst -sha256 -r | cut -d ' ' -f 1)
printf 'apiVersion: bourse.dev/v1alpha1\nkind: Session\nmetadata: {name: %s}\nspec: {key: "%s"}\n' "$session" "$key" |
	kubectl -n "$1" create -f - >/dev/null
made=yes
status() { kubectl -n "$1" get session "$session" -o "jsonpath={.status.$2}"; }
found= tries=150 # who may request may get a session, and not watch it
while [ -z "$found" ]; do
	[ $((tries -= 1)) -gt 0 ] || { echo "no agent answers the session $session" >&2; exit 1; }
	sleep 0.2
	found=$(status "$1" serverKey)
done
# Its hash in Base64, as curl takes it: awk writes each byte as printf reads it.
pin=$(status "$1" serverKey | awk '{ for (i = 1; i < 64; i += 2) printf "\\0%03o",
	16 * (index("0123456789abcdef", substr($0, i, 1)) - 1) + index("0123456789abcdef", substr($0, i + 1, 1)) - 1 }')
pin=$(printf '%b' "$pin" | openssl base64 -A)

at=$(status "$1" address) socket=
case $at in
pod:*) # listens on its loopback: a port of this machine leads there
	pod=${at#pod:} agents=bourse
	case $pod in */*) agents=${pod%%/*} pod=${pod#*/} ;; esac
	kubectl -n "$agents" port-forward "pod/${pod%:*}" ":${pod##*:}" >"$work/forward" & forward=$!
	until grep -q '^Forwarding' "$work/forward"; do kill -0 "$forward"; sleep 0.1; done
	at=$(sed -n 's/^Forwarding from \(127.0.0.1:[0-9]*\).*/\1/p' "$work/forward") ;;
unix:*) socket=${at#unix:} at=agent ;;
esac
# The pin takes the place of a CA: --insecure accepts the agent's own certificate, and no other key.
curl --silent --show-error --fail-with-body --tlsv1.3 --insecure --pinnedpubkey "sha256//$pin" ${socket:+--unix-socket "$socket"} \
	--cert "$work/tls.crt" --key "$work/tls.key" "https://$at/apis/bourse.dev/v1alpha1$2"
