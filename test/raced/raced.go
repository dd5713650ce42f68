// Package raced lets tests leave out what the race detector makes slow and cannot find fault with.
package raced

import "testing"

// Skip skips a test under the race detector, in which it would take several times as long: because
// it is large, measures memory, or has one goroutine. `make test` runs the packages that call Skip
// once more, without the detector.
func Skip(t testing.TB) {
	t.Helper()
	if detector {
		t.Skip("runs without the race detector")
	}
}
