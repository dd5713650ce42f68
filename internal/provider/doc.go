// Package provider is the half of an agent that lends.
//
// The [Gate] is the final authority over its cluster. It accepts only an
// assignment that names this cluster and its key, that the consumer's pinned key
// signed, that the SharingPolicy allows and that fits the gate's own books, which are
// a market of one provider, kept in the cluster's Ledger. The broker's word alone
// grants nothing and ends nothing.
//
// The [Advertiser] says what the cluster has; [Instructions] shows in Kubernetes what
// the gate accepted.
package provider
