// Package market is the domain of Bourse as a pure state machine: members, the capacity of providers,
// and the life of every reservation.
//
// [Decide] takes a [State], a [Command] and a time, and returns [Event]s or an error. [State.Apply]
// only assigns: it never checks capacity and never decides. So a journal gives the same state on any
// machine, and with any later version of the rules. The package has no I/O, clock, goroutine,
// randomness or floating point, and no result depends on the order of a map.
//
// A market runs in two places. The broker's has all members and places reservations ([Hold],
// [Confirm], [Accept], [Refuse], [Release], [Free]). An agent's has one provider, itself ([Admit],
// [Commit], [Free]), and the results of its own requests ([Note]). Package exchange runs both, and
// makes events durable before it answers.
//
// Advertisements are soft state ([State.Observe]): they are no events.
//
// Start with records.go (what is stored), hold.go and bind.go (the way to Reserved), end.go and tick.go
// (ends), and account.go (the available capacity of a provider). parties.go indexes the records of each
// cluster, with the bounds in caps.go, adds.go and crowded.go.
package market
