package server

import (
	"bufio"
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"
)

// gone is a connection whose other end was closed before the answer began.
type gone struct{ http.ResponseWriter }

func (gone) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	here, there := net.Pipe()
	there.Close()
	return here, nil, nil
}

// Whoever left before the answer began leaves nothing behind: its watch is written, in vain, and so closed, and its context ends.
func TestWatchOfWhoIsGone(t *testing.T) {
	s, written := &Server{}, make(chan context.Context, 1)
	for _, until := range []time.Time{{}, time.Now().Add(time.Hour)} {
		r := httptest.NewRequest(http.MethodGet, "/watch", nil)
		lasting, end := context.WithCancel(t.Context())
		defer end()
		lines := &lines{lasting: lasting}
		r = r.WithContext(context.WithValue(r.Context(), connectionKey{}, &connection{lines: lines}))
		err := s.takeOver(gone{httptest.NewRecorder()}, r, until, func(ctx context.Context, l line) {
			if l.writeLines([]byte("{}\n")) == nil {
				t.Error("it was written to who is gone")
			}
			written <- ctx
		})
		if err != nil {
			t.Fatal(err)
		}
		<-(<-written).Done()
		lines.open.Wait()
	}
}
