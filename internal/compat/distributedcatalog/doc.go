// Package distributedcatalog answers the interfaces of the prototype that called itself the
// Distributed Catalog: those of its broker (/authenticate, /catalog, /offers ...) and those of its
// connector (/api/offers, /api/contracts/buy ...).
//
// It knows the prototype's shapes and nothing else does. It has no market, no store and no rights
// of its own: each call becomes calls of Bourse's REST API, made in memory in the caller's name, so
// that membership, ownership, visibility, limits and errors are the same for all callers ([Broker]
// before the members' listener, [Connector] before an agent's own). While it runs, it remembers the
// authenticated callers, and the version of an offer that each buyer saw.
package distributedcatalog
