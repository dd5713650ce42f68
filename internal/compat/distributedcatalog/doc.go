// Package distributedcatalog answers the interfaces of the prototype that called itself the
// Distributed Catalog: those of its broker (/authenticate, /catalog, /offers ...) and those of its
// connector (/api/offers, /api/contracts/buy ...).
//
// It knows the prototype's shapes and nothing else does. It has no market, no store and no rights
// of its own: each call becomes calls of Bourse's REST API, made in memory as whoever called, so
// that membership, ownership, visibility, limits and errors are what they are for everybody
// ([Broker] before the members' listener, [Connector] before an agent's own). What it remembers is
// who authenticated, as long as it runs, and which version of an offer was shown to whoever buys.
package distributedcatalog
