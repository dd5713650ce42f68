package server

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/bourse-dev/bourse/api"
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
			if l.write([]api.WatchEvent{{}}) == nil {
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

// Of what a reader has yet to read no more than a chunk is made, however much there is to tell.
func TestAWatchIsSentInChunks(t *testing.T) {
	here, there := net.Pipe()
	defer there.Close()
	made := 0
	go func() {
		defer here.Close()
		err := line{here}.send(func(e *events) error {
			for made = range 10_000 {
				if err := e.add(api.WatchEvent{Type: api.WatchBookmark, Token: strings.Repeat("a", 1000)}); err != nil {
					return err
				}
			}
			return e.addLines(bytes.Repeat([]byte("a line\n"), perChunk))
		})
		if err != nil {
			t.Error(err)
		}
	}()
	in := bufio.NewReader(there)
	for first := true; ; first = false {
		head, err := in.ReadString('\n')
		if err == io.EOF {
			break
		}
		size, err := strconv.ParseInt(strings.TrimSpace(head), 16, 32)
		if err != nil || size == 0 || size > 2*perChunk {
			t.Fatalf("a chunk of %d bytes, %v", size, err)
		}
		if first && made > 2*perChunk/1000 {
			t.Errorf("%d events are made before anything is read", made)
		}
		if _, err := in.Discard(int(size) + 2); err != nil {
			t.Fatal(err)
		}
	}
}
