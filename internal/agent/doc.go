// Package agent wires an agent: our program in each member cluster. What it does is in
// the packages that it puts together: gate (lending), requests (borrowing), inventory (what there
// is), transport (the broker), exchange over a Ledger (what must not be forgotten).
//
//	         ┌── reservations ──▶ gate.Gate, requests.Borrower ──▶ exchange ──▶ Ledger
//	broker ──┤                                                            │
//	         └── sharing.Advertiser ◀── inventory, SharingPolicy ◀────────┘
//	kubectl ──▶ requests.Controller      users ──▶ local listener
//
// Of several replicas one leads; it alone does any of this. Without the broker it starts, keeps
// what it has and catches up later.
package agent
