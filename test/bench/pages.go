package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"regexp"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/server"
	"github.com/bourse-dev/bourse/internal/transport"
)

const (
	// readers is the number of users who read all clusters at the same time.
	readers = 10
	// pageEvery is how often a user reads a page while memory is measured. Faster, what is allocated during a garbage
	// collection is most of what that leaves.
	pageEvery = 500 * time.Millisecond
)

// alone is a cluster that passes over no provider.
type alone struct{ server.ClusterAPI }

func (alone) PassedOver(context.Context, []string) (map[string]error, error) { return nil, nil }

// readPages measures what an agent holds while ten users read 10,000 clusters by pages of 200, and how many they read at
// most. Its listener is in this process, the broker in another. The users throw away what they read.
func readPages(ctx context.Context, b *bench) ([]Figure, error) {
	clusters := b.count(many)
	p, members, err := startFull(ctx, b.orders("pages"), &books{clusters: clusters, sellers: 1, offers: 1}, 1)
	if err != nil {
		return nil, err
	}
	defer p.stop()
	broker := transport.NewHTTP(members[0].cluster, members[0].broker)
	listener, err := (&net.ListenConfig{}).Listen(ctx, "unix", filepath.Join(b.dir, "agent.sock"))
	if err != nil {
		return nil, err
	}
	agent := &httptest.Server{Listener: listener, Config: &http.Server{
		Handler: server.Local(broker, alone{}, 10_000, slog.New(slog.DiscardHandler)).For(server.LocalUser)}}
	agent.Start()
	defer agent.Close()
	users := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: readers,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", listener.Addr().String())
		}}}
	if n, err := readClusters(ctx, users, 0); err != nil || n != clusters { // it warms up
		return nil, errors.Join(err, fmt.Errorf("it has %d of %d clusters", n, clusters))
	}
	before, most := heapInUse(), uint64(0)
	if _, err = readAll(ctx, users, b.lasts(20*time.Second), pageEvery, func() { most = max(most, heapInUse()) }); err != nil {
		return nil, err
	}
	took := b.lasts(5 * time.Second)
	read, err := readAll(ctx, users, took, 0, func() {})
	return []Figure{
		atMost(5, fmt.Sprintf("agent: ten users page through %d clusters, HeapInuse after GC", clusters),
			(float64(most)-float64(before))/(1<<20), "MiB more"),
		plain("agent: clusters that ten users read by pages", float64(read)/took.Seconds(), "/s"),
	}, err
}

// readAll has the users read all clusters again and again, one page each so often, and calls look meanwhile. It returns
// how many clusters they read.
func readAll(ctx context.Context, users *http.Client, lasts, every time.Duration, look func()) (int64, error) {
	ctx, stop := context.WithTimeout(ctx, lasts)
	defer stop()
	var group errgroup.Group
	read := atomic.Int64{}
	for range readers {
		group.Go(func() error {
			for {
				n, err := readClusters(ctx, users, every)
				read.Add(int64(n))
				switch {
				case ctx.Err() != nil:
					return nil
				case err != nil:
					return err
				}
			}
		})
	}
	for ctx.Err() == nil {
		look()
		time.Sleep(50 * time.Millisecond)
	}
	err := group.Wait()
	return read.Load(), err
}

var (
	next = regexp.MustCompile(`"continue":"([^"]*)"`)
	item = []byte(`"revision":`)
)

// tail counts the items of an answer, and keeps its end.
type tail struct {
	last  []byte
	items int
}

func (t *tail) Write(p []byte) (int, error) {
	whole := append(t.last, p...)
	t.items += bytes.Count(whole, item) - bytes.Count(t.last, item)
	t.last = bytes.Clone(whole[max(0, len(whole)-300):])
	return len(p), nil
}

// readClusters reads all clusters by pages, one each so often, and returns how many there are. It repeats what the agent has no room for.
func readClusters(ctx context.Context, user *http.Client, every time.Duration) (n int, err error) {
	query := url.Values{"limit": {"200"}}
	for {
		call, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://agent"+api.Prefix+"/clusters?"+query.Encode(), nil)
		if err != nil {
			return n, err
		}
		answer, err := user.Do(call)
		if err != nil {
			return n, err
		}
		var text tail
		_, err = io.CopyBuffer(struct{ io.Writer }{&text}, answer.Body, make([]byte, 4<<10))
		_ = answer.Body.Close()
		switch {
		case err != nil:
			return n, err
		case answer.StatusCode == http.StatusTooManyRequests:
			time.Sleep(100 * time.Millisecond)
			continue
		case answer.StatusCode != http.StatusOK:
			return n, fmt.Errorf("%s: %.300s", answer.Status, text.last)
		}
		n += text.items
		found := next.FindSubmatch(text.last)
		if len(found) == 0 || len(found[1]) == 0 {
			return n, nil
		}
		query.Set("continue", string(found[1]))
		time.Sleep(every)
	}
}
