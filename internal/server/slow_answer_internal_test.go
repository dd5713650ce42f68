package server

import (
	"context"
	"io"
	"net"
	"net/http"
	"testing"
	"testing/synctest"
	"time"
)

// pipes is a listener whose connections are in memory: a write waits for its reader.
type pipes chan net.Conn

func (p pipes) Addr() net.Addr { return &net.TCPAddr{} }
func (p pipes) Close() error   { close(p); return nil }

func (p pipes) Accept() (net.Conn, error) {
	if c, open := <-p; open {
		return c, nil
	}
	return nil, net.ErrClosed
}

// A reader that takes all its time for each piece of an answer loses the connection when the time of the answer ends.
// Without such a time it may go on.
func TestASlowReaderOfAnAnswer(t *testing.T) {
	for name, b := range map[string]Bounds{"bounded": {Answer: 30 * time.Second}, "unbounded": {}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				lasted := make(chan time.Duration, 1)
				h := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
					begun := time.Now()
					_, _ = w.Write(make([]byte, 20*pieceSize))
					lasted <- time.Since(begun)
				})
				l := make(pipes)
				ctx, stop := context.WithCancel(t.Context())
				done := make(chan error)
				go func() { done <- serve(ctx, newLimitedListener(l, b), h, b) }()
				client, server := net.Pipe()
				l <- server
				if _, err := io.WriteString(client, "GET / HTTP/1.1\r\nHost: a\r\n\r\n"); err != nil {
					t.Fatal(err)
				}
				ended := make(chan struct{})
				go func() {
					defer close(ended)
					for {
						time.Sleep(9 * time.Second)
						if _, err := io.ReadFull(client, make([]byte, pieceSize)); err != nil {
							return
						}
					}
				}()
				took := <-lasted
				if b.Answer > 0 && took > b.Answer || b.Answer == 0 && took < time.Minute {
					t.Errorf("the answer was written for %s", took)
				}
				_ = client.Close()
				<-ended
				stop()
				if err := <-done; err != nil {
					t.Error(err)
				}
			})
		})
	}
}
