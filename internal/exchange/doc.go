// Package exchange runs a market. One goroutine owns the state, and nothing is acknowledged before
// it is durable.
//
//	tasks  ─▶ answer the tasks that only read
//	       ─▶ decide the others, one by one, and apply their events to the state
//	       ─▶ append all events to the journal in one commit
//	       ─▶ publish the immutable view and notify the watches
//	       ─▶ answer the tasks
//
// During a commit, new tasks queue. So the batch grows with the load, and the disk's commit rate
// does not limit the market. [Exchange.Read] and [Exchange.View] show durable state only.
//
// After a failed append the state is not valid. With a file journal, Run ends, and the process with
// it: the result of a failed fsync is unknown. With [Options.Resume], Run loads the journal again.
//
// Start with exchange.go (opening), then loop.go (commits), tasks.go (the calls), watch.go and
// catalog.go (what readers receive), compact.go (snapshots) and resume.go (failures).
package exchange
