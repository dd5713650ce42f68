// Package match is the decision engine: which provider a request gets, and why.
//
// An [Engine] turns a request into an [Ask] once, and decides it as often as needed against
// an immutable [market.View]. A decision is a walk over the clusters of the view. Each cluster
// goes through the [filters] in their order until one gives a [Reason] to eliminate it; those that
// pass all of them are candidates, which the scorers of the request's strategy rank
// ([strategies]). Both are lists of named pure functions; to add one is to add it to its list.
//
// The result explains itself: how many clusters each filter eliminated and for which reason, the best
// candidates with their scores, and the nearest miss. A cluster that the consumer may not see counts as
// Hidden, and appears nowhere else.
//
// Decisions use integers only (`where` and `allow` are the exception: CEL has
// doubles), depend on nothing but the view, the ask and the time, and not on the order of clusters.
// testdata/decide has examples.
package match
