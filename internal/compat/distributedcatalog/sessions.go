package distributedcatalog

import (
	"crypto/rand"
	"crypto/tls"
	"sync"
	"time"
)

const (
	// sessionEnds is how long a token is good for.
	sessionEnds = 24 * time.Hour
	// maxSessions is how many one cluster has; the oldest gives way.
	maxSessions = 8
)

// sessions are the tokens of authenticated callers, for as long as the broker runs. A token stands for the
// connection with which its owner proved its identity. It ends with the membership or the certificate.
type sessions struct {
	mu  sync.Mutex
	all map[string]session
	now func() time.Time
}

type session struct {
	cluster string
	state   *tls.ConnectionState
	begun   time.Time
}

func (s *sessions) open(cluster string, state *tls.ConnectionState) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	oldest, have := "", 0
	for token, session := range s.all {
		if session.cluster != cluster {
			continue
		}
		if have++; oldest == "" || session.begun.Before(s.all[oldest].begun) {
			oldest = token
		}
	}
	if have >= maxSessions {
		delete(s.all, oldest)
	}
	token := rand.Text()
	s.all[token] = session{cluster, state, s.now()}
	return token
}

func (s *sessions) find(token string) *tls.ConnectionState {
	s.mu.Lock()
	defer s.mu.Unlock()
	session, known := s.all[token]
	if !known {
		return nil
	}
	if s.now().Sub(session.begun) > sessionEnds {
		delete(s.all, token)
		return nil
	}
	return session.state
}

// end forgets the tokens of a cluster.
func (s *sessions) end(cluster string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for token, session := range s.all {
		if session.cluster == cluster {
			delete(s.all, token)
		}
	}
}
