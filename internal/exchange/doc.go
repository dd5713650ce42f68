// Package exchange is a running market: one goroutine owns the state, and nothing
// is acknowledged before it is durable.
//
//	orders ─▶ answer those that only read, if others are to be written
//	       ─▶ decide and apply these, one by one, on the working state
//	       ─▶ append the whole batch to the journal in one commit
//	       ─▶ publish the immutable view, feed the watches
//	       ─▶ answer the orders
//
// While a commit is on its way new orders gather, so the batch grows with the
// load and the disk's rate does not bound the market's. Whoever reads
// ([Exchange.Read], [Exchange.View]) sees only what is durable.
//
// When an append fails the working state is worth nothing. Over a file journal Run
// ends, and with it the process: what a file system says after a failed fsync cannot
// be trusted. Over a journal that says [Options.Resume], the state is loaded again.
package exchange
