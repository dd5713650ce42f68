package ui

import (
	"context"
	"io"
	"net"
	"net/url"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/test/ui/browser"
)

// relay forwards connections to an address, as ssh -L does, until it is cut.
type relay struct {
	net.Listener
	to string

	mu   sync.Mutex
	off  bool
	dead chan struct{} // nil: bytes pass
	open map[net.Conn]bool
}

func startRelay(t *testing.T, to string) *relay {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	r := &relay{Listener: l, to: to, open: map[net.Conn]bool{}}
	t.Cleanup(func() { _ = l.Close(); r.cut(true) })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go r.forward(c)
		}
	}()
	return r
}

func (r *relay) forward(c net.Conn) {
	defer c.Close()
	other, err := net.Dial("tcp", r.to)
	if err != nil {
		return
	}
	defer other.Close()
	r.mu.Lock()
	off := r.off
	r.open[c], r.open[other] = true, true
	r.mu.Unlock()
	if off {
		return
	}
	go func() { r.copy(other, c); _ = other.Close() }()
	r.copy(c, other)
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.open, c)
	delete(r.open, other)
}

// copy passes bytes on, and while the relay is held none.
func (r *relay) copy(to io.Writer, from io.Reader) {
	bytes := make([]byte, 32<<10)
	for {
		n, err := from.Read(bytes)
		if err != nil {
			return
		}
		r.mu.Lock()
		dead := r.dead
		r.mu.Unlock()
		if dead != nil {
			<-dead
		}
		if _, err := to.Write(bytes[:n]); err != nil {
			return
		}
	}
}

// hold keeps all bytes, on connections that stay open, until it is mended.
func (r *relay) hold(dead bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if dead {
		r.dead = make(chan struct{})
	} else {
		close(r.dead)
		r.dead = nil
	}
}

// cut ends all connections, and refuses new ones until it is mended.
func (r *relay) cut(off bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.off = off; off {
		for c := range r.open {
			_ = c.Close()
		}
	}
}

// Through a relay on another port of the user's own machine the pages log in, live and act.
func TestThroughARelay(t *testing.T) {
	shared.request(t, "relayed", small())
	s := shared.pages(t, "rome", "")
	u, err := url.Parse(s.URL())
	must(t, err)
	r := startRelay(t, u.Host)
	b := newTab(t, 1280)
	must(t, b.Login("http://"+r.Addr().String()+"/", s.Code()))
	must(t, b.Go("/borrowing"))
	must(t, b.Wait(`socket.readyState === 1`))
	shared.request(t, "relayed-later", small())
	must(t, b.Wait(`document.getElementById("row-team/relayed-later") !== null`))
	must(t, b.Go("/requests/team/relayed?panel=release"))
	must(t, b.Do(chromedp.Click(`section.panel button.danger`)))
	must(t, b.See("team/relayed is being released"))
	r.cut(true)
	must(t, b.Wait(`document.documentElement.hasAttribute("data-offline")`))
	must(t, b.See("This page is not live"))
	r.cut(false)
	must(t, b.Wait(`!document.documentElement.hasAttribute("data-offline")`))
	b.Faults() // connections that were cut
}

// While the API server is gone, a page says so and shows what it knew; then it goes on, and has missed nothing.
func TestAPIServerGone(t *testing.T) {
	t.Parallel()
	shared.request(t, "known", small())
	config := shared.config(t, "rome", "")
	u, err := url.Parse(config.Host)
	must(t, err)
	r := startRelay(t, u.Host)
	config.Host = "https://" + r.Addr().String()
	b := tab(t, shared.pagesOf(t, config, "rome", nil), 1280)
	must(t, b.Go("/borrowing"))
	must(t, b.Wait(`document.getElementById("row-team/known") !== null`))
	must(t, b.Wait(`socket.readyState === 1`))
	r.cut(true)
	must(t, b.See("The API server does not answer"))
	must(t, b.Wait(`document.getElementById("row-team/known") !== null`)) // what was watched
	shared.request(t, "made-meanwhile", small())
	r.cut(false)
	must(t, b.Wait(`document.getElementById("row-team/made-meanwhile") !== null`))
	must(t, b.Wait(`!document.querySelector("main").innerText.includes("does not answer")`))
}

// While no agent leads, a page says so. What the user typed stays, and is carried out once another one leads, if it is
// about what the user saw.
func TestLeaderKilled(t *testing.T) {
	shared.request(t, "led", small())
	var o api.ResourceRequest
	for end := time.Now().Add(20 * time.Second); o.Status.Began == nil; time.Sleep(100 * time.Millisecond) {
		must(t, shared.Members["rome"].Objects.Get(context.Background(), key("team", "led"), &o))
		if time.Now().After(end) {
			t.Fatal("it is never bound")
		}
	}
	b := tab(t, shared.pages(t, "rome", ""), 1280)
	must(t, b.Go("/requests/team/led?panel=extend"))
	must(t, b.Wait(`socket.readyState === 1`))
	must(t, b.Do(chromedp.Clear("#for"), chromedp.SendKeys("#for", "9h")))
	shared.StopMember("rome")
	must(t, b.See("The agent does not answer"))
	shared.StartMember("rome")
	must(t, b.Wait(`!document.body.innerText.includes("The agent does not answer")`))
	if typed, err := browser.Eval[string](b, `document.querySelector("#for").value`); err != nil || typed != "9h" {
		t.Errorf("the field has %q, %v", typed, err)
	}
	must(t, b.Do(chromedp.Click("section.panel form button")))
	must(t, b.See("The new end is asked for"))
}

// A page of a machine that slept says that it is old, until it is live again.
func TestSleepingClock(t *testing.T) {
	t.Parallel()
	shared.request(t, "before-sleep", small())
	s := shared.pages(t, "rome", "")
	u, err := url.Parse(s.URL())
	must(t, err)
	r := startRelay(t, u.Host)
	b := newTab(t, 1280)
	must(t, b.Login("http://"+r.Addr().String()+"/", s.Code()))
	must(t, b.Go("/borrowing"))
	must(t, b.Wait(`socket.readyState === 1 && !document.documentElement.hasAttribute("data-offline")`))
	r.hold(true) // a connection after a sleep: open, and dead
	_, err = browser.Eval[bool](b, `(() => { const real = Date.now; Date.now = () => real() + 3600_000; return true })()`)
	must(t, err)
	must(t, b.Wait(`document.documentElement.hasAttribute("data-offline")`))
	must(t, b.See("as of"))
	r.hold(false)
	must(t, b.Wait(`!document.documentElement.hasAttribute("data-offline")`))
	b.Faults()
}
