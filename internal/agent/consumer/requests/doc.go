// Package requests turns ResourceRequests of this cluster into reservations of other clusters' capacity.
//
// The [Controller] makes a reservation for each ResourceRequest and shows its state in Kubernetes. The
// [Borrower] deals with the broker: it checks each answer against the request, signs the assignment, and
// takes a provider to be bound only if the provider signed. Start with [Borrower.Ask], which begins a
// reservation, and [Borrower.Sync], which follows it.
//
// A reservation ends when its object is deleted, when the provider signs its end, or with its time. It never
// ends because something is not said.
package requests
