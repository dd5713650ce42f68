package kubernetes

import (
	"errors"
	"net/http"
	"sync"
	"time"
	"unicode/utf8"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bourse-dev/bourse/internal/server"
	"github.com/bourse-dev/bourse/internal/transport/kubernetes"
)

const (
	// held is the number of bytes of an answer that are kept until the member reads on. The writer of the
	// answer waits meanwhile.
	held = 2 * kubernetes.MaxPiece
	// slow is the time that the member may take to read a piece. Afterwards the answer is lost.
	slow = 30 * time.Second
)

var errUnread = errors.New("nobody reads the answer")

// stream is the answer to one call, between its writer and the member.
type stream struct {
	wake func() // there is a new piece to show
	slow time.Duration

	mu     sync.Mutex
	room   sync.Cond
	header http.Header
	status int
	date   metav1.Time
	base   int64 // the number of bytes of the answer that were read
	rest   []byte
	done   bool
	unread bool
}

func newStream(wake func()) *stream {
	s := &stream{wake: wake, slow: slow, header: http.Header{}}
	s.room.L = &s.mu
	return s
}

// Header implements http.ResponseWriter.
func (s *stream) Header() http.Header { return s.header }

// WriteHeader implements http.ResponseWriter.
func (s *stream) WriteHeader(status int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.begin(status)
}

func (s *stream) begin(status int) {
	if s.status == 0 {
		s.status, s.date = status, metav1.Now()
	}
}

// Write implements http.ResponseWriter. It takes the answer in pieces, and waits while too much is unread.
func (s *stream) Write(data []byte) (taken int, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.begin(http.StatusOK)
	for len(data) > 0 {
		if err := s.await(); err != nil {
			return taken, err
		}
		n := min(len(data), held-len(s.rest))
		s.rest = append(s.rest, data[:n]...)
		data, taken = data[n:], taken+n
	}
	return taken, nil
}

// await waits until there is space for a piece. The timeout starts again with each piece that is read.
func (s *stream) await() error {
	const most = held - kubernetes.MaxPiece
	if len(s.rest) > most && !s.unread {
		s.wake()
		enough := time.AfterFunc(s.slow, func() {
			server.CountRefused("slow_readers")
			s.close()
		})
		defer enough.Stop()
		for len(s.rest) > most && !s.unread {
			s.room.Wait()
		}
	}
	if s.unread {
		return errUnread
	}
	return nil
}

// FlushError, SetReadDeadline and SetWriteDeadline are for http.ResponseController.
func (s *stream) FlushError() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.begin(http.StatusOK)
	s.wake()
	return nil
}

// SetReadDeadline does nothing: the whole body is here.
func (s *stream) SetReadDeadline(time.Time) error { return nil }

// SetWriteDeadline does nothing: see slow.
func (s *stream) SetWriteDeadline(time.Time) error { return nil }

// close makes further writes fail.
func (s *stream) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.unread = true
	s.room.Broadcast()
}

// end marks the end of the answer.
func (s *stream) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.begin(http.StatusOK)
	s.done = true
	s.wake()
}

// read records the number of bytes that the member has read. It keeps a partly read character whole,
// because a text cannot start in the middle of one.
func (s *stream) read(upTo int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := min(upTo-s.base, int64(len(s.rest)))
	for n > 0 && n < int64(len(s.rest)) && !utf8.RuneStart(s.rest[n]) {
		n--
	}
	if n > 0 {
		s.base, s.rest = s.base+n, append([]byte(nil), s.rest[n:]...)
		s.room.Broadcast()
	}
}

// currentPiece returns the current piece of the answer; false if there is none yet.
func (s *stream) currentPiece() (kubernetes.Answer, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.status == 0 {
		return kubernetes.Answer{}, false
	}
	n := min(len(s.rest), kubernetes.MaxPiece)
	if !s.done || n < len(s.rest) { // a piece must not cut a character
		n = wholeText(s.rest[:n])
	}
	return kubernetes.Answer{Status: s.status, Date: s.date, From: s.base,
		Body: string(s.rest[:n]), Done: s.done && n == len(s.rest)}, true
}

// wholeText returns the number of bytes before a character that is cut at the end of a text.
func wholeText(text []byte) int {
	for n := len(text) - 1; n >= 0 && n >= len(text)-utf8.UTFMax; n-- {
		if utf8.RuneStart(text[n]) {
			if utf8.FullRune(text[n:]) {
				break
			}
			return n
		}
	}
	return len(text)
}
