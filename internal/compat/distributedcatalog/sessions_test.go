package distributedcatalog

import (
	"crypto/tls"
	"testing"
	"time"
)

// A token ends by itself; a cluster has the newest of its own, and those of others stay.
func TestSessionsEnd(t *testing.T) {
	now := time.Now()
	s := &sessions{all: map[string]session{}, now: func() time.Time { return now }}
	state := &tls.ConnectionState{}
	other := s.open("oslo", state)
	var tokens []string
	for range maxSessions + 1 {
		now = now.Add(time.Minute)
		tokens = append(tokens, s.open("rome", state))
	}
	if s.find(tokens[0]) != nil || s.find(tokens[1]) != state || s.find(other) != state {
		t.Error("not the oldest of the same cluster gave way")
	}
	now = now.Add(sessionEnds - 2*time.Minute)
	if s.find(tokens[1]) != nil || s.find(other) != nil || s.find(tokens[maxSessions]) != state {
		t.Error("a token is good for another time than it should be")
	}
	s.end("rome")
	if s.find(tokens[maxSessions]) != nil || len(s.all) > 0 {
		t.Errorf("%d are left", len(s.all))
	}
}
