package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/bourse-dev/bourse/api"
)

// startFull starts a broker on full books and lets the first of the clusters join it.
func startFull(ctx context.Context, o orders, full *books, joining int) (*process, []*member, error) {
	if err := full.write(ctx, o.Dir); err != nil {
		return nil, nil, err
	}
	p, err := start(ctx, o)
	if err != nil {
		return nil, nil, err
	}
	members := make([]*member, joining)
	err = atOnceFor(ctx, joining, func(i int) (err error) {
		members[i], err = full.join(i, p.url)
		return err
	})
	if err != nil {
		p.stop()
	}
	return p, members, err
}

// startAlike starts a broker with so many clusters in one region. All have advertised.
func startAlike(ctx context.Context, o orders, n int) (*process, []*member, error) {
	p, members, err := startFull(ctx, o, &books{clusters: n, region: "eu"}, n)
	if err != nil {
		return nil, nil, err
	}
	err = atOnceFor(ctx, n, func(i int) error {
		c, err := members[i].advertises(ctx)
		if err != nil {
			return err
		}
		return c.conn.Close()
	})
	if err != nil {
		p.stop()
	}
	return p, members, err
}

// atOnceFor does something for each number below n, some at a time.
func atOnceFor(ctx context.Context, n int, do func(i int) error) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(atOnce)
	for i := range n {
		group.Go(func() error {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			return do(i)
		})
	}
	return group.Wait()
}

// advertises puts a member's first advertisement, on a connection for its calls.
func (m *member) advertises(ctx context.Context) (*connection, error) {
	c, err := m.dial(ctx, m.address)
	if err != nil {
		return nil, err
	}
	body, err := json.Marshal(m.measured)
	if err != nil {
		return nil, err
	}
	status, answer, err := c.do(m.request(http.MethodPut, "/clusters/"+m.cluster+"/advertisement", "", body))
	if err == nil && status != http.StatusNoContent {
		err = fmt.Errorf("%s: an advertisement is answered %d: %s", m.cluster, status, answer)
	}
	return c, err
}

// watching is a member's watch: its stream, as lean as reading it can be.
type watching struct {
	*connection
	lines *bufio.Scanner
}

// watches opens a member's watch and reads its snapshot.
func (m *member) watches(ctx context.Context, query string) (*watching, error) {
	c, err := m.dial(ctx, m.address)
	if err != nil {
		return nil, err
	}
	if _, err := c.conn.Write(m.request(http.MethodGet, "/watch"+query, "", nil)); err != nil {
		return nil, err
	}
	answer, err := http.ReadResponse(c.in, nil)
	if err != nil {
		return nil, err
	}
	w := &watching{c, bufio.NewScanner(answer.Body)}
	w.lines.Buffer(nil, 1<<20)
	if answer.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s: the watch is answered %d", m.cluster, answer.StatusCode)
	}
	return w, w.until(`"` + string(api.WatchBookmark) + `"`)
}

// until reads up to a line that holds a text.
func (w *watching) until(text string) error {
	for w.lines.Scan() {
		if bytes.Contains(w.lines.Bytes(), []byte(text)) {
			return nil
		}
	}
	return errors.Join(w.lines.Err(), errors.New("the watch ended"))
}

// raiseFiles lets this process, and those that it starts, have as many files open as the machine
// allows, and returns how many.
func raiseFiles() (int, error) {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return 0, err
	}
	limit.Cur = limit.Max
	return int(min(limit.Max, 1<<20)), syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit)
}

// connected measures what the broker's memory is for each agent that is connected as a real one is,
// by a watch and a connection for its calls, once all have advertised and the broker has come to
// rest. The agents are in this process, the broker in its own. Where the machine does not allow so
// many files, the last of them close the connection for their calls, or fewer are connected: the
// name of the figure says how many.
func connected(ctx context.Context, b *bench) ([]Figure, error) {
	files, err := raiseFiles()
	if err != nil {
		return nil, err
	}
	agents := min(b.count(many), files-200)
	calling := min(agents, files-200-agents)
	p, members, err := startFull(ctx, b.orders("connected"), &books{clusters: b.count(many)}, agents)
	if err != nil {
		return nil, err
	}
	defer p.stop()
	before, err := p.rests()
	if err != nil {
		return nil, err
	}
	begin, first, err := time.Now(), time.Duration(0), error(nil)
	if first, err = p.cpu(); err != nil {
		return nil, err
	}
	open := make([][2]*connection, agents)
	defer func() {
		for _, c := range open {
			for _, c := range c {
				if c != nil {
					c.conn.Close()
				}
			}
		}
	}()
	err = atOnceFor(ctx, agents, func(i int) (err error) {
		w, err := members[i].watches(ctx, "")
		if err != nil {
			return err
		}
		open[i][0] = w.connection
		c, err := members[i].advertises(ctx)
		if err == nil && i >= calling {
			return c.conn.Close()
		}
		open[i][1] = c
		return err
	})
	if err != nil {
		return nil, err
	}
	took := time.Since(begin)
	last, err := p.cpu()
	if err != nil {
		return nil, err
	}
	after, err := p.rests()
	if err != nil {
		return nil, err
	}
	if b.profile != "" { // of what lives while they are connected
		if _, err := p.cpu(); err != nil {
			return nil, err
		}
	}
	return []Figure{
		atMost(128, fmt.Sprintf("connected agents, %d, %d of them by two connections: memory (RSS) of the broker for each",
			agents, calling), (after-before)/1024/float64(agents), "KiB"),
		plain("connected agents, files that a process may have open here", float64(files), ""),
		plain("connected agents, all of them connect and advertise", took.Seconds(), "s"),
		plain("connected agents, CPU time of the broker for that", (last - first).Seconds(), "s"),
	}, nil
}

// rests waits until the broker has had the time to see that it rests, and returns its memory in bytes.
func (p *process) rests() (float64, error) {
	time.Sleep(22 * time.Second)
	return residentBytes(p.command.Process.Pid)
}
