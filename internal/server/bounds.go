package server

import (
	"cmp"
	"time"
)

// Bounds limit what peers may hold open. A field that is 0 has its default.
type Bounds struct {
	// Connections is the number of connections of a listener: 32,768, or three fifths of the files that
	// the process may open. Unidentified is the number of those on which no call has shown its caller
	// yet: a quarter of Connections. Waiting is the number of further connections that wait for a place,
	// each for at most Stall: as many as Unidentified.
	Connections, Unidentified, Waiting int
	// PerCaller is the number of connections of one caller at one listener: 128.
	PerCaller int
	// Introduction is the time that an unidentified connection keeps its place while others wait: 3 s.
	Introduction time.Duration
	// Stall is the time that a peer may take to read 16 KiB, or to send the first bytes of a body: 10 s.
	// After that it must send 16 KiB each second.
	Stall time.Duration
	// Answer is the time from the headers of a call until its answer must have been read. 0: none, since a watch is an
	// answer.
	Answer time.Duration
	// Watches is the number of watches of a member: 16. Calls is the number of active calls of a caller:
	// 32. Large is the number of those with a body of more than 64 KiB: 2. Further calls wait for
	// Patience: 5 s.
	Watches, Calls, Large int
	Patience              time.Duration
	// Quiet is the time after which an idle watch sends a bookmark, and the interval at which the server
	// checks that its caller may still call: 20 s.
	Quiet time.Duration
}

// orDefault replaces fields that are 0.
func (b Bounds) orDefault() Bounds {
	b.Connections = cmp.Or(b.Connections, min(32<<10, openFiles()/5*3))
	b.Unidentified = cmp.Or(b.Unidentified, max(1, b.Connections/4))
	b.Waiting = cmp.Or(b.Waiting, b.Unidentified)
	b.PerCaller = cmp.Or(b.PerCaller, 128)
	b.Introduction = cmp.Or(b.Introduction, 3*time.Second)
	b.Stall = cmp.Or(b.Stall, stall)
	b.Watches, b.Calls, b.Large = cmp.Or(b.Watches, 16), cmp.Or(b.Calls, 32), cmp.Or(b.Large, 2)
	b.Patience, b.Quiet = cmp.Or(b.Patience, patience), cmp.Or(b.Quiet, 20*time.Second)
	return b
}

// patience is the default of Bounds.Patience, also for whole lists.
const patience = 5 * time.Second

// stall is the default of Bounds.Stall, also for watches.
const stall = 10 * time.Second

// unlimited is the assumed number of files of a process without a limit.
const unlimited = 1 << 20

// pieceSize is the number of bytes that a peer must read or send in the time that Bounds give.
const pieceSize = 16 << 10
