// Package raced lets tests leave out what the race detector makes slow and cannot find fault with. Its file
// packages lists the packages whose tests run with the detector.
package raced

import "testing"

// Skip skips a test under the race detector, in which it would take several times as long: because
// it is large, measures memory, or has one goroutine. `make test-plain` runs the tests that call Skip
// without the detector. It finds them in the source: a test calls Skip itself, no helper does. With
// -short, as in `make quick`, they do not run either.
func Skip(t testing.TB) {
	t.Helper()
	if Detector || testing.Short() {
		t.Skip("runs without the race detector and without -short")
	}
}
