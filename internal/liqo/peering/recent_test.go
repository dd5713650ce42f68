package peering

import (
	"testing"
	"time"
)

// What is kept is read again after two seconds of the given clock.
func TestRecent(t *testing.T) {
	var r recent[string]
	begun := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	r.keep("milan", "nonce", begun)
	for after, want := range map[time.Duration]bool{0: true, recently - 1: true, recently: false} {
		var at recent[string]
		at.keep("milan", "nonce", begun)
		if is, known := at.of("milan", begun.Add(after)); known != want || known && is != "nonce" {
			t.Errorf("after %s: %q, %v", after, is, known)
		}
	}
	if _, known := r.of("oslo", begun); known {
		t.Error("another peer has it too")
	}
	r.forget("milan")
	if _, known := r.of("milan", begun); known {
		t.Error("it is forgotten and still known")
	}
}
