package cluster

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/client"
	"github.com/bourse-dev/bourse/internal/identity/pinned"
	"github.com/bourse-dev/bourse/internal/kubeobject"
)

// answeredWithin is how long a question may take while no agent leads: the next one leads after 15 s.
const answeredWithin = 28 * time.Second

// Asker asks the agent of a cluster as its user. It creates a Session in each of the namespaces that it asks for, or a
// ClusterSession. When they end, or another agent leads, it creates others and asks again: a question changes nothing.
// Several goroutines may use it. Close it.
type Asker struct {
	config     *rest.Config
	objects    rest.Interface
	namespaces []string // "" is the whole cluster
	key        *pinned.Key
	home       atomic.Pointer[string] // the namespace of the agent's pod; nil: not known yet
	open       context.Context        // ends when Close begins
	shut       context.CancelFunc     // ends open

	mu      sync.Mutex
	current *connection
}

// NewAsker makes a client of the agent's questions that asks with the rights of a user in these namespaces or, without
// any, with those in the whole cluster. It calls nothing yet. Its calls have the errors of package client, and also
// Forbidden if the user may not create the Session, or may not forward a port of the agent's pod.
func NewAsker(config *rest.Config, namespaces ...string) (*client.Client, *Asker, error) {
	known := runtime.NewScheme()
	if err := api.AddToScheme(known); err != nil {
		return nil, nil, err
	}
	of := unlimited(config)
	of.APIPath, of.GroupVersion = "/apis", &api.GroupVersion
	of.NegotiatedSerializer = serializer.NewCodecFactory(known).WithoutConversion()
	objects, err := rest.RESTClientFor(of)
	if err != nil {
		return nil, nil, err
	}
	if len(namespaces) == 0 {
		namespaces = []string{metav1.NamespaceAll}
	}
	key, err := pinned.NewKey()
	a := &Asker{config: config, objects: objects, namespaces: namespaces, key: key}
	a.open, a.shut = context.WithCancel(context.Background())
	return client.New("http://agent", &http.Client{Transport: a}), a, err
}

// unlimited returns a config without a rate of the client's own: the API server has its own fair limits.
func unlimited(config *rest.Config) *rest.Config {
	of := rest.CopyConfig(config)
	of.QPS = -1
	return of
}

// Close ends the calls in flight and deletes the sessions. Errors: those of the API server.
func (a *Asker) Close(ctx context.Context) error {
	a.shut() // first: a call that waits for the agent holds mu
	a.mu.Lock()
	current := a.current
	a.current = nil
	a.mu.Unlock()
	return current.close(ctx)
}

// RoundTrip implements http.RoundTripper.
func (a *Asker) RoundTrip(r *http.Request) (*http.Response, error) {
	ctx, cancel := context.WithTimeout(r.Context(), answeredWithin)
	kept := context.AfterFunc(a.open, cancel)
	end := func() {
		kept()
		cancel()
	}
	again := wait.Backoff{Duration: 50 * time.Millisecond, Factor: 2, Steps: 20, Cap: 2 * time.Second}
	body, err := readBody(r)
	for err == nil {
		var answer *http.Response
		answer, err = a.try(ctx, r, body)
		if known, ok := errors.AsType[*api.Error](err); ok && known.Code != api.CodeUnavailable {
			break
		}
		pause := again.Step()
		if err == nil {
			until, _ := ctx.Deadline()
			if answer.StatusCode != http.StatusTooManyRequests || time.Until(until) < 2*time.Second {
				answer.Body = &endedBody{answer.Body, end}
				return answer, nil
			}
			_ = answer.Body.Close()
			pause = time.Second
		}
		select {
		case <-ctx.Done():
			err = cmp.Or(err, ctx.Err())
		case <-time.After(pause):
			err = nil
		}
	}
	end()
	return nil, err
}

// readBody returns the body of a call, so that it can be sent again.
func readBody(r *http.Request) ([]byte, error) {
	if r.Body == nil {
		return nil, nil
	}
	defer r.Body.Close()
	return io.ReadAll(r.Body)
}

// endedBody ends the context of a call with its answer.
type endedBody struct {
	io.ReadCloser
	cancel context.CancelFunc
}

// Close implements io.Closer.
func (b *endedBody) Close() error {
	defer b.cancel()
	return b.ReadCloser.Close()
}

// try makes a call once. Errors: Unavailable if another connection may help.
func (a *Asker) try(ctx context.Context, r *http.Request, body []byte) (*http.Response, error) {
	c, err := a.connect(ctx)
	if err != nil {
		return nil, err
	}
	once := r.Clone(ctx)
	once.URL.Scheme = "https"
	if once.Body = nil; body != nil {
		once.Body = io.NopCloser(bytes.NewReader(body))
	}
	answer, err := c.http.RoundTrip(once)
	switch {
	case err != nil:
		err = api.Errorf(api.CodeUnavailable, "the agent at %s does not answer: %s", c.address, err).
			Fix("see whether it runs: kubectl get pods -A -l app.kubernetes.io/name=bourse-agent")
	case answer.StatusCode == http.StatusUnauthorized:
		_ = answer.Body.Close()
		err = api.Errorf(api.CodeUnavailable, "the agent at %s says that the session has ended", c.address).
			Fix("repeat the command")
	case c.hasShrunk(answer):
		_ = answer.Body.Close()
		err = api.Errorf(api.CodeUnavailable, "a session for one of your namespaces has ended").Fix("repeat the command")
	default:
		return answer, nil
	}
	a.forget(c)
	return nil, err
}

// hasShrunk reports whether an answer is for fewer namespaces than the user asks for.
func (c *connection) hasShrunk(answer *http.Response) bool {
	n, err := strconv.Atoi(answer.Header.Get(api.SessionsHeader))
	return err == nil && n < len(c.sessions)
}

// connect returns the current connection, or makes one.
func (a *Asker) connect(ctx context.Context) (*connection, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.current != nil {
		return a.current, nil
	}
	c := &connection{asker: a}
	err := c.begin(ctx)
	if err != nil {
		c.abandon()
		return nil, err
	}
	a.current = c
	return c, nil
}

// forget makes the next call make a connection.
func (a *Asker) forget(c *connection) {
	a.mu.Lock()
	is := a.current == c
	if is {
		a.current = nil
	}
	a.mu.Unlock()
	if is {
		c.abandon()
	}
}

// connection is to the agent that answered the sessions.
type connection struct {
	asker     *Asker
	sessions  []*api.Session // without a namespace: a ClusterSession
	serverKey string
	address   string
	dial      func(context.Context) (net.Conn, error)
	hangUp    func()
	http      *http.Transport
}

// begin creates the sessions, waits for the agent's answer, and finds the way to it.
func (c *connection) begin(ctx context.Context) error {
	for _, namespace := range c.asker.namespaces {
		if err := c.create(ctx, namespace); err != nil {
			return err
		}
	}
	for _, s := range c.sessions {
		if err := c.await(ctx, s); err != nil {
			return err
		}
	}
	c.http = &http.Transport{MaxIdleConnsPerHost: 4, DialTLSContext: c.dialTLS}
	return c.route(ctx)
}

// create creates a session. Errors: Unauthenticated; Forbidden; Unavailable.
func (c *connection) create(ctx context.Context, namespace string) error {
	s := &api.Session{Spec: api.SessionSpec{Key: c.asker.key.Hash()}}
	s.Namespace, s.Name = namespace, "bourse-"+strings.ToLower(rand.Text()[:16])
	s.SetGroupVersionKind(api.GroupVersion.WithKind(kindOf(s)))
	err := c.asker.objects.Post().NamespaceIfScoped(namespace, namespace != "").Resource(resourceOf(s)).
		Param("fieldValidation", metav1.FieldValidationStrict).Body(objectOf(s)).Do(ctx).Error()
	switch {
	case apierrors.IsForbidden(err) && namespace != "":
		return api.Errorf(api.CodeForbidden, "you may not ask for namespace %s: %s", namespace, err).
			Fix("ask an admin of the cluster: kubectl -n %s create rolebinding bourse-YOU --clusterrole=bourse-requester "+
				"--user=YOU", namespace)
	case apierrors.IsForbidden(err):
		return api.Errorf(api.CodeForbidden, "you may not ask for the whole cluster: %s", err).
			Fix("name a namespace (-n NAMESPACE); or ask an admin of the cluster: kubectl create clusterrolebinding " +
				"bourse-YOU --clusterrole=bourse-viewer --user=YOU")
	case isMissingNamespace(err):
		return api.Errorf(api.CodeNotFound, "the cluster has no namespace %.63q", namespace).Fix("name another namespace (-n NAMESPACE)")
	case apierrors.IsNotFound(err):
		return api.Errorf(api.CodeNotFound, "the cluster has no kind %s: %s", kindOf(s), err).
			Fix("install Bourse there, or the manifests of this version: bourse init")
	case err != nil:
		return errorOf(err)
	}
	c.sessions = append(c.sessions, s)
	return nil
}

// isMissingNamespace reports whether an object was not created because its namespace does not exist.
func isMissingNamespace(err error) bool {
	status, ok := errors.AsType[*apierrors.StatusError](err)
	return ok && apierrors.IsNotFound(err) && status.ErrStatus.Details != nil && status.ErrStatus.Details.Kind == "namespaces"
}

// errorOf returns an error of the API server. Errors: Unauthenticated for a user whom it does not know; Invalid if its
// certificate is not trusted; else those of kubeobject.Error. Unavailable alone may pass.
func errorOf(err error) error {
	_, untrusted := errors.AsType[*tls.CertificateVerificationError](err)
	switch {
	case untrusted:
		return api.Errorf(api.CodeInvalid, "the API server is not the one of the kubeconfig: %s", err).
			Fix("see certificate-authority-data and server there: kubectl config view --minify")
	case apierrors.IsUnauthorized(err), err != nil && strings.Contains(err.Error(), "getting credentials: "): // of a plugin
		return api.Errorf(api.CodeUnauthenticated, "the API server does not know the user of your kubeconfig: %s", err).
			Fix("log in again; to see who you are: kubectl auth whoami")
	}
	return kubeobject.Error(err)
}

// await waits until the agent has answered a session. Errors: Unavailable.
func (c *connection) await(ctx context.Context, s *api.Session) error {
	again := wait.Backoff{Duration: 10 * time.Millisecond, Factor: 1.5, Steps: 100, Cap: 500 * time.Millisecond}
	for {
		found, err := c.get(ctx, s)
		switch {
		case apierrors.IsNotFound(err):
			return api.Errorf(api.CodeUnavailable, "the session %s has ended before the agent answered it", s.Name).
				Fix("repeat the command")
		case err != nil && ctx.Err() == nil:
			return errorOf(err)
		case err == nil && found.ServerKey != "":
			if c.serverKey != "" && c.serverKey != found.ServerKey {
				return api.Errorf(api.CodeUnavailable, "another agent leads since a moment").Fix("repeat the command")
			}
			c.serverKey, c.address = found.ServerKey, found.Address
			return nil
		}
		select {
		case <-ctx.Done():
			return api.Errorf(api.CodeUnavailable, "no agent of the cluster answers the session %s: %s", s.Name, ctx.Err()).
				Fix("see whether it runs: kubectl get pods -A -l app.kubernetes.io/name=bourse-agent")
		case <-time.After(again.Step()):
		}
	}
}

// get reads the agent's answer to a session.
func (c *connection) get(ctx context.Context, s *api.Session) (api.SessionStatus, error) {
	found := objectOf(s)
	err := c.asker.objects.Get().NamespaceIfScoped(s.Namespace, s.Namespace != "").Resource(resourceOf(s)).Name(s.Name).
		Do(ctx).Into(found)
	if cluster, ok := found.(*api.ClusterSession); ok {
		return cluster.Status, err
	}
	return found.(*api.Session).Status, err
}

// route finds the way to the agent's address. Errors: those of OpenPod; Internal for one of an unknown
// form.
func (c *connection) route(ctx context.Context) error {
	kind, rest, _ := strings.Cut(c.address, ":")
	switch {
	case kind == "pod":
		pod, text, _ := strings.Cut(rest, ":")
		namespace, name, named := strings.Cut(pod, "/")
		if !named {
			namespace, name = api.Namespace, pod
		}
		port, err := strconv.ParseUint(text, 10, 16)
		if err != nil {
			return c.unknownAddress()
		}
		c.asker.home.Store(&namespace)
		opened, err := OpenPod(ctx, c.asker.config, namespace, name)
		if api.CodeOf(err) == api.CodeNotFound { // another one will lead
			err = api.Errorf(api.CodeUnavailable, "%s", api.WithoutCode(err.Error()))
		}
		if err != nil {
			return err
		}
		c.hangUp = func() { _ = opened.Close() }
		c.dial = func(ctx context.Context) (net.Conn, error) { return opened.Dial(ctx, uint16(port)) }
	case kind == "unix":
		c.dial = func(ctx context.Context) (net.Conn, error) { return new(net.Dialer).DialContext(ctx, "unix", rest) }
	default:
		host, _, err := net.SplitHostPort(c.address)
		if ip := net.ParseIP(host); err != nil || !ip.IsLoopback() {
			return c.unknownAddress()
		}
		c.dial = func(ctx context.Context) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "tcp", c.address)
		}
	}
	return nil
}

// unknownAddress is the error of an address that this version does not know.
func (c *connection) unknownAddress() error {
	return api.Errorf(api.CodeInternal, "the agent names the address %.80q, which this version does not know", c.address).
		Fix("use the version of bourse that the agent has")
}

// dialTLS connects to the agent that has the server key, and to no other.
func (c *connection) dialTLS(ctx context.Context, _, _ string) (net.Conn, error) {
	raw, err := c.dial(ctx)
	if err != nil {
		return nil, err
	}
	conn := tls.Client(raw, c.asker.key.ClientTLS(c.serverKey))
	if err := conn.HandshakeContext(ctx); err != nil {
		_ = raw.Close()
		return nil, err
	}
	return conn, nil
}

// abandon closes a connection that broke, and deletes its sessions if the API server answers soon.
func (c *connection) abandon() {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	_ = c.close(ctx) // the agent deletes them later
}

// close closes the connection and deletes its sessions. It may be called on nil. Errors: those of the API server.
func (c *connection) close(ctx context.Context) (err error) {
	if c == nil {
		return nil
	}
	if c.hangUp != nil {
		c.hangUp() // first: a connection that is broken would wait to say goodbye
	}
	if c.http != nil {
		c.http.CloseIdleConnections()
	}
	for _, s := range c.sessions {
		failed := c.asker.objects.Delete().NamespaceIfScoped(s.Namespace, s.Namespace != "").Resource(resourceOf(s)).
			Name(s.Name).Do(ctx).Error()
		if failed != nil && !apierrors.IsNotFound(failed) {
			err = errors.Join(err, kubeobject.Error(failed))
		}
	}
	return err
}

func kindOf(s *api.Session) string {
	if s.Namespace == "" {
		return "ClusterSession"
	}
	return "Session"
}

func resourceOf(s *api.Session) string { return strings.ToLower(kindOf(s)) + "s" }

// objectOf returns a session as the API server knows it.
func objectOf(s *api.Session) runtime.Object {
	if s.Namespace == "" {
		return &api.ClusterSession{TypeMeta: s.TypeMeta, ObjectMeta: s.ObjectMeta, Spec: s.Spec}
	}
	return s.DeepCopy()
}
