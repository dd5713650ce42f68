// Package explain puts into words and data what objects, reservations and decisions say. The command line and the web
// UI have each sentence from here. It is pure: it reads no clock and calls nothing.
//
// Start at [Stages], which says how far a request is and what it waits for, and at [Decision], which says why it got
// its provider. The other functions are about one object each: reservation.go, request.go, deals.go, clusters.go.
package explain
