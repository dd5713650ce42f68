// Package agent wires an agent: our program in each member cluster. What it does is in
// the packages that it puts together: provider (lending), consumer (borrowing), inventory
// (what there is), transport (the broker), exchange over a Ledger (what must not be forgotten).
//
//	         ┌── follower ──▶ provider.Gate, consumer.Borrower ──▶ exchange ──▶ Ledger
//	broker ──┤                                                        │
//	         └── provider.Advertiser ◀── inventory, SharingPolicy ◀───┘
//	kubectl ──▶ consumer.Requests        people ──▶ local listener
//
// Of several replicas one leads; it alone does any of this. Without the broker it starts, keeps
// what it has and catches up later.
package agent
