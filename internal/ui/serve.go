package ui

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"html"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"sync"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubernetes "k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/client"
	"github.com/bourse-dev/bourse/client/cluster"
	"github.com/bourse-dev/bourse/internal/ui/pages"
)

// idleEnd is how long the pages are served while none is open.
const idleEnd = 12 * time.Hour

// lookEvery is how often the wall clock is looked at, and asleepAfter how far it jumps when the machine slept.
const lookEvery, asleepAfter = 5 * time.Second, 30 * time.Second

// Listen listens on loopback. Without an address it takes a random one of 127.0.0.0/8, where the system has them all, and
// without a port a free one: who held an address and port before can have left scripts there. Errors: Invalid.
func Listen(address string, port int) (net.Listener, error) {
	if address == "" {
		address = "127.0.0.1"
		if runtime.GOOS == "linux" && os.Getenv("WSL_DISTRO_NAME") == "" { // a browser of Windows reaches 127.0.0.1 alone
			bits := make([]byte, 3)
			_, _ = rand.Read(bits) // never fails
			address = fmt.Sprintf("127.%d.%d.%d", bits[0], bits[1], 2+bits[2]%252)
		}
	}
	if ip := net.ParseIP(address); ip == nil || !ip.IsLoopback() || ip.To4() == nil {
		return nil, api.Invalid("--address", "%.60q is not an address of 127.0.0.0/8", address).
			Fix("leave it out; to reach it from elsewhere: ssh -L")
	}
	l, err := net.Listen("tcp4", net.JoinHostPort(address, strconv.Itoa(port)))
	if err != nil {
		return nil, api.Invalid("--port", "%s", err).Fix("leave --address and --port out: a free one is taken")
	}
	return l, nil
}

// Server serves the pages of one cluster to the user of this machine.
type Server struct {
	door     *Door
	ui       *UI
	listener net.Listener
	client   *cluster.Client
}

// Start serves the pages for a kubeconfig's user until ctx ends. contextName is that of its context. Without namespaces,
// the pages show the whole cluster, or fallback if the user may not see it.
func Start(ctx context.Context, config *rest.Config, listener net.Listener, contextName, fallback string,
	namespaces []string, log *slog.Logger) (*Server, error) {
	me, err := newMe(config)
	if err != nil {
		return nil, err
	}
	user := cluster.UserName(ctx, config)
	if len(namespaces) == 0 && fallback != "" && !me.may(ctx, right{"", "create", "clustersessions"}) {
		namespaces = []string{fallback}
	}
	acts, err := cluster.New(config, namespaces...)
	if err != nil {
		return nil, err
	}
	s := &Server{listener: listener, client: acts}
	watched, err := cluster.NewWatched(ctx, config, func() { s.ui.Change() })
	if err != nil {
		return nil, err
	}
	address, _, err := net.SplitHostPort(listener.Addr().String())
	if err != nil {
		return nil, err
	}
	o := Options{Reads: acts.ReadFrom(watched), Acts: acts, Away: watched.Away, Context: contextName, Server: config.Host,
		User: user, Namespaces: namespaces, ThemeFile: themeFile(), Log: log}
	o.May = func(ctx context.Context, namespace string) pages.Rights {
		return me.rights(ctx, namespace, pages.FirstNamespace(namespaces), acts.AgentNamespace(ctx))
	}
	s.door = NewDoor(address, func(prefix string) http.Handler {
		s.ui = New(o, prefix)
		return s.ui
	})
	return s, nil
}

// StartOperator serves the page of a broker's operator until ctx ends. name is how the operator reaches it.
func StartOperator(broker *client.Client, name string, listener net.Listener, log *slog.Logger) (*Server, error) {
	address, _, err := net.SplitHostPort(listener.Addr().String())
	if err != nil {
		return nil, err
	}
	s := &Server{listener: listener}
	s.door = NewDoor(address, func(prefix string) http.Handler {
		s.ui = New(Options{Broker: broker, Server: name, User: name, ThemeFile: themeFile(), Log: log}, prefix)
		return s.ui
	})
	return s, nil
}

// URL is the address of the pages. A browser there asks for a code.
func (s *Server) URL() string { return "http://" + s.listener.Addr().String() + "/" }

// Code returns the code that lets the next browser in.
func (s *Server) Code() string { return s.door.Code() }

// WriteLogin writes a file that logs the browser in that opens it, and goes on to a path. Only its owner can read it. The
// code is in no argument of a program, which other users could see.
func (s *Server) WriteLogin(dir, path string) (file string, err error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", err
	}
	file = filepath.Join(dir, "login-"+secret()[:8]+".html")
	page := fmt.Sprintf(`<!doctype html><meta charset="utf-8"><title>Bourse</title><body onload="document.forms[0].submit()">`+
		`<form method="post" action="%slogin"><input type="hidden" name="code" value="%s"><input type="hidden" name="to" value="%s">`+
		`<button>Log in to Bourse</button></form>`, s.URL(), s.door.newCode(), html.EscapeString(path))
	return file, os.WriteFile(file, []byte(page), 0o600)
}

// Serve serves the pages until ctx ends, or none was open for 12 h.
func (s *Server) Serve(ctx context.Context) error {
	server := &http.Server{Handler: s.door, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: time.Minute, MaxHeaderBytes: 64 << 10,
		BaseContext: func(net.Listener) context.Context { return ctx }}
	go func() {
		ticks := time.NewTicker(lookEvery)
		defer ticks.Stop()
		s.ui.watchTime(ctx, ticks.C, func() time.Time { return time.Now().Round(0) })
		s.ui.Close() // a server does not end WebSockets
		_ = server.Close()
	}()
	err := server.Serve(s.listener)
	end, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	if s.client != nil {
		_ = s.client.Close(end) // the agent ends the sessions that stay
	}
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}

// watchTime looks at the wall clock and the kubeconfig at each tick, because timers stand still while a laptop sleeps. It
// returns when ctx ends, or no page was open for idleEnd.
func (u *UI) watchTime(ctx context.Context, ticks <-chan time.Time, wall func() time.Time) {
	used, last := wall(), wall()
	for wall().Sub(used) < idleEnd {
		select {
		case <-ctx.Done():
			return
		case <-ticks:
		}
		now := wall()
		if now.Sub(last) > asleepAfter {
			u.wake(last, now)
		}
		go u.kubeconfig.look(now, u.Change)
		if last = now; u.Pages() > 0 {
			used = now
		}
	}
}

const (
	// rightKnown is how long the API server's answer about a right holds, and rightWithin how long a page waits for it.
	rightKnown, rightWithin = 30 * time.Second, 5 * time.Second
	// mostRights bounds the answers that are kept: an address may name any namespace.
	mostRights = 512
)

// me is the user of a kubeconfig, as the API server knows them. It keeps each answer for rightKnown.
type me struct {
	objects kubernetes.Interface

	mu    sync.Mutex
	known map[right]judged
}

// right is to do something with a kind of ours, in a namespace or, without one, in all.
type right struct{ namespace, verb, resource string }

// judged is what the API server says about a right, by the wall clock: a machine may sleep.
type judged struct {
	allowed bool
	at      time.Time
}

func newMe(config *rest.Config) (*me, error) {
	config = rest.CopyConfig(config)
	config.QPS = -1 // a page asks for all its rights at once
	c, err := kubernetes.NewForConfig(config)
	return &me{objects: c, known: map[right]judged{}}, err
}

// may reports whether the user has a right. If the API server does not say it, the last answer holds; without one, an act
// tries.
func (m *me) may(ctx context.Context, r right) bool {
	m.mu.Lock()
	old, known := m.known[r]
	m.mu.Unlock()
	if now := time.Now().Round(0); known && now.Sub(old.at).Abs() < rightKnown {
		return old.allowed
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), rightWithin)
	defer cancel()
	review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{
		ResourceAttributes: &authorizationv1.ResourceAttributes{Namespace: r.namespace, Verb: r.verb, Group: api.Group,
			Resource: r.resource}}}
	review, err := m.objects.AuthorizationV1().SelfSubjectAccessReviews().Create(ctx, review, metav1.CreateOptions{})
	next := judged{allowed: !known || old.allowed, at: time.Now().Round(0)}
	if err == nil {
		next.allowed = review.Status.Allowed
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.known) >= mostRights {
		clear(m.known)
	}
	m.known[r] = next
	return next.allowed
}

// rights returns what the user may do in a namespace, and in the cluster whose agent is in another one. proposals is the
// namespace where a page makes Proposals.
func (m *me) rights(ctx context.Context, namespace, proposals, agent string) (out pages.Rights) {
	var all sync.WaitGroup
	for may, of := range map[*bool]right{
		&out.Request:         {namespace, "create", "resourcerequests"},
		&out.ChangeRequests:  {namespace, "patch", "resourcerequests"},
		&out.ReleaseRequests: {namespace, "delete", "resourcerequests"},
		&out.Propose:         {proposals, "create", "proposals"},
		&out.ChangePools:     {"", "patch", "virtualnodepools"},
		&out.AskCluster:      {"", "create", "clustersessions"},
		&out.Lend:            {"", "patch", "sharingpolicies"},
		&out.Approve:         {agent, "patch", "providerinstructions"},
		&out.Sell:            {agent, "patch", "offers"},
		&out.EditPeers:       {agent, "patch", "peers"},
		&out.EditBrokers:     {agent, "patch", "brokers"},
	} {
		all.Go(func() { *may = m.may(ctx, of) })
	}
	all.Wait()
	return out
}
