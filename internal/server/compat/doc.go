// Package compat speaks the prototypes' interfaces over the broker's one market, so that what was written for them goes on
// working: the REST API of the resource agent's broker (/api/v1, [Options.Agents]), and the catalog and orchestrator of
// liqo-broker (/api/clusters, /api/toggle). Nothing else knows these shapes.
//
// A resource agent has no cluster key, and no gate. Its cluster is a legacy member: the broker derives a key for it from a
// [Secret], shows a card that says so, and signs with that key what the agent means by its calls ([deputy]). To everyone
// else it is then a member like any other, with whom those trade whose SharingPolicy says `trust: legacy`. What the calls
// mean is this:
//
//   - an advertisement is one, and the lease; what the agent calls available bounds what is shared; what decides nothing here is given
//     back to whoever reads it ([claims]);
//   - a reservation that it makes, it has signed;
//   - an instruction that it fetches, it has accepted;
//   - one that has ended, and that it therefore no longer gets when it fetches, it is free of.
//
// Its agent counts a reservation, and then once more the pods that use it: that errs on the safe side.
package compat
