package kubernetes

import (
	"bytes"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bourse-dev/bourse/internal/transport/kubernetes"
)

// Of an answer of any length the broker holds no more than held, however much is written at once,
// and a member that reads gets all of it.
func TestALongAnswerIsHeldInPieces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStream(func() {})
		answer := bytes.Repeat([]byte("0123456789abcdef"), 50<<20/16)
		written := make(chan error, 1)
		go func() {
			n, err := s.Write(answer)
			if n != len(answer) {
				t.Errorf("%d of %d bytes are written: %v", n, len(answer), err)
			}
			s.end()
			written <- err
		}()
		got, most := 0, 0
		for done := false; !done; {
			synctest.Wait()
			s.mu.Lock()
			most = max(most, len(s.rest), cap(s.rest))
			s.mu.Unlock()
			piece, _ := s.currentPiece()
			if !bytes.Equal([]byte(piece.Body), answer[got:got+len(piece.Body)]) {
				t.Fatalf("what follows on %d bytes is wrong", got)
			}
			got, done = got+len(piece.Body), piece.Done
			s.read(int64(got))
			time.Sleep(slow / 2) // a slow link, on which something comes
		}
		if err := <-written; err != nil || got != len(answer) {
			t.Errorf("%d of %d bytes are read: %v", got, len(answer), err)
		}
		if most > 2*held {
			t.Errorf("%d bytes are held", most)
		}
	})
}

// A member that reads less than a piece in the time for one loses the answer.
func TestAnAnswerThatIsHardlyReadEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStream(func() {})
		written, began := make(chan error, 1), time.Now()
		go func() {
			_, err := s.Write(make([]byte, 2*held))
			written <- err
		}()
		for read := int64(1); ; read++ {
			time.Sleep(slow / 10)
			s.read(read)
			select {
			case err := <-written:
				if !errors.Is(err, errUnread) || time.Since(began) > 2*slow {
					t.Errorf("after %s: %v", time.Since(began), err)
				}
				return
			default:
			}
			if read > kubernetes.MaxPiece/100 {
				t.Fatal("the answer is still held")
			}
		}
	})
}
