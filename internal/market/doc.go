// Package market is the domain of Bourse: who is a member, what each provider
// has, and the life of every reservation, as one pure state machine.
//
// A [Command] is decided against a [State] at a time and yields [Event]s or an
// error ([Decide]). Applying an event ([State.Apply]) only assigns: it never
// checks capacity and never decides again, so replaying a journal gives the same
// state on any machine and with any later version of the rules. There is no I/O,
// clock, goroutine, randomness or floating point here, and no result depends on
// the order of a map.
//
// The same market stands twice in the product. The broker's holds every member
// and places reservations ([Hold], [Confirm], [Accept], [Refuse], [Release],
// [Free]). An agent's holds one provider, itself: its gate ([Admit], [Commit],
// [Free]), and what its own requests became ([Note]). Both are driven by package
// exchange, which makes events durable before anyone is answered.
//
// Advertisements are soft state ([State.Observe]): they are replaced all the
// time, are never events, and never change what a provider measured. What is
// left of a provider is computed in account.go; that is the heart of it.
package market
