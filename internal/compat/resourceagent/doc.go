// Package resourceagent serves the REST API of the resource agent's broker (/api/v1) over the
// broker's one market, so that agents of that prototype go on working.
//
// A resource agent has no cluster key and no gate. Its cluster is a legacy member. The broker
// derives a key for it from a [Secret], publishes a card that says so, and signs with that key what
// the agent means by its calls ([deputy]). To others it is a member like any other. It trades with
// clusters whose SharingPolicy says `trust: legacy`. The calls mean this:
//
//   - An advertisement is an advertisement, and renews the lease. What the agent calls available
//     bounds what is shared. The broker returns the fields that decide nothing to readers
//     ([claims]).
//   - A reservation that the agent makes is signed.
//   - An instruction that the agent fetches is accepted.
//   - The agent is free of a reservation that has ended once it fetches its instructions without it.
//
// The agent counts a reservation and also the pods that use it, which errs on the safe side.
package resourceagent
