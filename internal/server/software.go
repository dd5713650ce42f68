package server

import (
	"sync"
	"unicode"
)

// maxSoftware bounds what is kept of a User-Agent, in bytes.
const maxSoftware = 64

// software is which program each member runs, by the User-Agent of its last call. Only members have an entry.
type software struct {
	byMember sync.Map // of texts
}

// record notes what a call of a member named.
func (s *software) record(member, userAgent string) {
	text := []byte(userAgent)[:min(len(userAgent), maxSoftware)]
	for i, c := range text { // operators print it
		if c > unicode.MaxASCII || !unicode.IsPrint(rune(c)) {
			text[i] = '?'
		}
	}
	if known, _ := s.byMember.Load(member); known != string(text) {
		s.byMember.Store(member, string(text))
	}
}

// of returns the program of a member, empty if it has not called.
func (s *software) of(member string) string {
	text, _ := s.byMember.Load(member)
	known, _ := text.(string)
	return known
}
