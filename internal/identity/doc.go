// Package identity identifies the members of a federation, in two separate ways:
//
//   - identity/tlsid: TLS certificates for connections. The broker is their CA. They identify callers to the
//     broker, and the broker to its members. They prove nothing to other members.
//   - identity/clusterkey: an Ed25519 key per cluster that no CA certifies. Peers pin it, and accept a
//     document (a card, an assignment, an acceptance, an end) only if that key signed it. A lying broker can
//     hold documents back, but it cannot make or change one.
//
// The two meet in identity/join, where a new cluster presents a one-time token and proves that it holds both
// keys, and in identity/store, where an agent keeps them. Private keys are made where they are used and
// never leave their cluster.
//
// All of them use [Fingerprint], which users and records use to identify a key.
package identity
