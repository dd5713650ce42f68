// Package identity says who is who in a federation, in two ways that are kept apart:
//
//   - identity/tlsid: TLS certificates. They carry traffic. The broker is their CA, so they prove to the
//     broker who calls, and to a member that it speaks to its broker; they prove nothing to other members.
//   - identity/clusterkey: an Ed25519 key per cluster that no CA certifies. Peers pin it, and believe a
//     document (a card, an assignment, an acceptance, an end) only if that key signed it. A broker that
//     lies can hold documents back; it cannot make or change one.
//
// The two meet in identity/join, where a new cluster shows a one-time token and proves that it holds both
// keys, and in identity/store, where an agent keeps them. Private keys are made where they are used and
// never leave their cluster.
//
// What all of them share is in this package: the [Fingerprint], by which people and records name a key.
package identity
