// Package gate decides, for a provider, about reservations of its cluster's capacity.
//
// The [Gate] has the last word. It accepts an assignment only if the assignment names this cluster and its
// key, if the consumer's pinned key signed it, if the SharingPolicy allows it, and if it fits the gate's own
// books. The books are a market of one provider, in the cluster's Ledger. The broker's word alone grants
// nothing and ends nothing.
//
// Start with [Gate.Sync]: it compares what a broker shows of one reservation with what the Ledger has, and
// acts on the difference. [Offers] puts Offers on sale. [Approvals] reads an admin's answer from a
// ProviderInstruction, and [Instructions] writes those objects.
package gate
