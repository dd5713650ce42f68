// Package cluster is a user's access to a member cluster with the user's own kubeconfig.
//
// [OpenPod] connects to a pod through the API server, as `kubectl port-forward` does, with the user's own rights. Its
// connections exist in this process alone: no port is opened on the user's machine, where others could use it.
package cluster

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/httpstream"
	spdystream "k8s.io/apimachinery/pkg/util/httpstream/spdy"
	tunnel "k8s.io/apimachinery/pkg/util/portforward"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/portforward"
	"k8s.io/client-go/transport/spdy"
	"k8s.io/client-go/transport/websocket"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/kubeobject"
)

const (
	// maxReason bounds the bytes of a node's text for why a connection failed.
	maxReason = 4096
	// reasonWithin is how long that text may arrive after the end of the connection: both come by streams of their own.
	reasonWithin = time.Second
	// closedWithin is how long after the end of a stream the end of the whole connection may be known.
	closedWithin = 200 * time.Millisecond
)

// Pod is a connection through the API server to one pod. It carries any number of connections to ports of the pod. Its
// methods may be called concurrently.
type Pod struct {
	name    string
	streams httpstream.Connection
	last    atomic.Int64 // the last request's ID
}

// OpenPod connects to a pod with the rights of a kubeconfig's user: get and create on pods/portforward in the
// namespace, and no other. It uses a WebSocket, or SPDY where the way to the API server lets none through. Errors:
// Forbidden without these rights; NotFound; Unavailable.
func OpenPod(ctx context.Context, config *rest.Config, namespace, name string) (*Pod, error) {
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, api.Errorf(api.CodeInvalid, "the kubeconfig: %s", err)
	}
	at := client.CoreV1().RESTClient().Post().Resource("pods").Namespace(namespace).Name(name).
		SubResource("portforward").URL()
	closeLate := func(late httpstream.Connection) { _ = late.Close() }
	streams, err := within(ctx, func() (httpstream.Connection, error) { return openWebSocket(ctx, config, at) }, closeLate)
	if needsSPDY(err) {
		streams, err = within(ctx, func() (httpstream.Connection, error) { return openSPDY(ctx, config, at) }, closeLate)
	}
	switch {
	case apierrors.IsForbidden(err):
		return nil, api.Errorf(api.CodeForbidden, "port-forward to pod %s in namespace %s: %s", name, namespace, err).
			Fix("ask an admin of the cluster for the Role bourse-port-forward there: bourse auth grant YOU -n NAMESPACE "+
				"--agent-namespace %s | kubectl apply -f -", namespace)
	case err != nil:
		code := api.CodeOf(kubeobject.Error(err))
		return nil, api.Errorf(code, "port-forward to pod %s in namespace %s: %s", name, namespace, err)
	}
	return &Pod{name: namespace + "/" + name, streams: streams}, nil
}

// needsSPDY reports whether an error says that the way to the API server lets no WebSocket through.
func needsSPDY(err error) bool {
	return httpstream.IsUpgradeFailure(err) || httpstream.IsHTTPSProxyError(err)
}

// openWebSocket opens SPDY's streams in a WebSocket.
func openWebSocket(ctx context.Context, config *rest.Config, at *url.URL) (httpstream.Connection, error) {
	transport, holder, err := websocket.RoundTripperFor(config)
	if err != nil {
		return nil, err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, at.String(), nil)
	if err != nil {
		return nil, err
	}
	conn, err := websocket.Negotiate(transport, holder, request,
		tunnel.WebsocketsSPDYTunnelingPrefix+portforward.PortForwardProtocolV1Name)
	if err != nil {
		return nil, err
	}
	tunneled := portforward.NewTunnelingConnection("client", conn)
	return spdystream.NewClientConnectionWithPings(tunneled, portforward.PingPeriod)
}

// openSPDY opens SPDY's streams in the connection itself.
func openSPDY(ctx context.Context, config *rest.Config, at *url.URL) (httpstream.Connection, error) {
	transport, upgrader, err := spdy.RoundTripperFor(config)
	if err != nil {
		return nil, err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, at.String(), nil)
	if err != nil {
		return nil, err
	}
	streams, _, err := spdy.Negotiate(upgrader, &http.Client{Transport: transport}, request,
		portforward.PortForwardProtocolV1Name)
	return streams, err
}

// Close ends the connection, with all connections to ports.
func (p *Pod) Close() error { return p.streams.Close() }

// Dial connects to a TCP port of the pod. ctx bounds the dial alone. Deadlines of the connection have no effect: to
// end a call, close the connection. Its Close drops what the other side did not read yet. If nothing listens at the
// port, Dial succeeds, and Read returns the node's reason. Errors: Unavailable.
func (p *Pod) Dial(ctx context.Context, port uint16) (net.Conn, error) {
	headers := http.Header{}
	headers.Set(corev1.PortForwardRequestIDHeader, strconv.FormatInt(p.last.Add(1), 10))
	headers.Set(corev1.PortHeader, strconv.Itoa(int(port)))
	reasons, err := p.open(ctx, headers, corev1.StreamTypeError) // the node wants it first
	if err != nil {
		return nil, api.Errorf(api.CodeUnavailable, "port %d of pod %s: %s", port, p.name, err)
	}
	_ = reasons.Close() // for writing
	data, err := p.open(ctx, headers, corev1.StreamTypeData)
	if err != nil {
		p.end(reasons)
		return nil, api.Errorf(api.CodeUnavailable, "port %d of pod %s: %s", port, p.name, err)
	}
	c := &conn{Stream: data, toPod: toPod{fmt.Sprintf("%s:%d", p.name, port)}, pod: p, port: port, ended: make(chan struct{})}
	go c.readReason(reasons)
	return c, nil
}

// open opens one of the two streams of a connection.
func (p *Pod) open(ctx context.Context, headers http.Header, kind string) (httpstream.Stream, error) {
	headers = headers.Clone()
	headers.Set(corev1.StreamType, kind)
	return within(ctx, func() (httpstream.Stream, error) { return p.streams.CreateStream(headers) }, p.end)
}

// end ends a stream in both directions.
func (p *Pod) end(s httpstream.Stream) {
	_ = s.Reset()
	p.streams.RemoveStreams(s)
}

// conn is a connection to a port.
type conn struct {
	httpstream.Stream
	toPod
	pod   *Pod
	port  uint16
	ended chan struct{} // closed when reason is read
	// reason is why the node ended the connection. Empty: it is the pod that did.
	reason string
}

func (c *conn) readReason(reasons httpstream.Stream) {
	text, _ := io.ReadAll(io.LimitReader(reasons, maxReason)) // the end of the connection ends it, too
	c.reason = strings.TrimSpace(string(text))
	close(c.ended)
	c.pod.end(reasons)
}

// Read returns the node's reason instead of io.EOF, if the node gives one.
func (c *conn) Read(into []byte) (int, error) {
	n, err := c.Stream.Read(into)
	if !errors.Is(err, io.EOF) {
		return n, err
	}
	select {
	case <-c.ended:
	case <-time.After(reasonWithin):
		return n, err
	}
	if c.reason != "" {
		return n, api.Errorf(api.CodeUnavailable, "port %d of pod %s: %s", c.port, c.pod.name, c.reason)
	}
	select {
	case <-c.pod.streams.CloseChan():
		return n, fmt.Errorf("pod %s: the connection to the API server has ended: %w", c.pod.name, io.ErrUnexpectedEOF)
	case <-time.After(closedWithin): // the pod ended this one alone
		return n, err
	}
}

// Close ends the connection in both directions: data that nobody reads would hold up other connections. The node then
// ends the stream of its reason.
func (c *conn) Close() error {
	_ = c.Stream.Close()
	c.pod.end(c.Stream)
	return nil
}

// toPod is what all connections to a pod have: an address, and no deadlines.
type toPod struct{ remote string }

func (toPod) LocalAddr() net.Addr              { return address("client") }
func (t toPod) RemoteAddr() net.Addr           { return address(t.remote) }
func (toPod) SetDeadline(time.Time) error      { return nil }
func (toPod) SetReadDeadline(time.Time) error  { return nil }
func (toPod) SetWriteDeadline(time.Time) error { return nil }

// address is one end of a connection.
type address string

func (address) Network() string  { return "port-forward" }
func (a address) String() string { return string(a) }

// within returns what open returns, or the error of ctx if that ends before. What comes later goes to discard: neither
// the libraries' dials nor their streams end with a context.
func within[T any](ctx context.Context, open func() (T, error), discard func(T)) (T, error) {
	type result struct {
		opened T
		err    error
	}
	done := make(chan result)
	go func() {
		var r result
		r.opened, r.err = open()
		select {
		case done <- r:
		case <-ctx.Done():
			if r.err == nil {
				discard(r.opened)
			}
		}
	}()
	select {
	case r := <-done:
		return r.opened, r.err
	case <-ctx.Done():
		var none T
		return none, ctx.Err()
	}
}
