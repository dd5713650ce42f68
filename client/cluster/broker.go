package cluster

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/remotecommand"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/client"
	"github.com/bourse-dev/bourse/internal/kubeobject"
)

const (
	brokerLabel     = "app.kubernetes.io/name=bourse-broker"
	brokerContainer = "broker"
	// brokerProgram is what the image of a broker runs, unless its container names another program.
	brokerProgram = "/bourse"
)

// NewBroker makes a client of the broker that runs in a namespace, for its operator. It calls nothing yet. Each
// connection runs `bourse broker stdio` in the broker's pod, as `kubectl exec` does: its user needs list on pods, and
// get and create on pods/exec there. These rights reach the broker's data, with or without this client. Errors of its
// calls: also Forbidden without these rights, and Unavailable if no pod of a broker is ready.
func NewBroker(config *rest.Config, namespace string) *client.Client {
	b := &inPod{config: config, namespace: namespace}
	return client.New("http://broker", &http.Client{Transport: &http.Transport{DialContext: b.dial, MaxConnsPerHost: 4}})
}

// inPod is a broker in a namespace of a cluster.
type inPod struct {
	config    *rest.Config
	namespace string
}

// dial connects to the socket of the broker. ctx bounds the dial alone.
func (b *inPod) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	pods, err := kubernetes.NewForConfig(b.config)
	if err != nil {
		return nil, api.Errorf(api.CodeInvalid, "the kubeconfig: %s", err)
	}
	pod, err := b.findReady(ctx, pods)
	if err != nil {
		return nil, err
	}
	program := brokerProgram
	for _, c := range pod.Spec.Containers {
		if c.Name == brokerContainer && len(c.Command) > 0 {
			program = c.Command[0]
		}
	}
	at := pods.CoreV1().RESTClient().Post().Resource("pods").Namespace(b.namespace).Name(pod.Name).SubResource("exec").
		VersionedParams(&corev1.PodExecOptions{Container: brokerContainer, Stdin: true, Stdout: true, Stderr: true,
			Command: []string{program, "broker", "stdio"}}, scheme.ParameterCodec).URL()
	socket, err := remotecommand.NewWebSocketExecutor(b.config, http.MethodGet, at.String())
	if err != nil {
		return nil, api.Errorf(api.CodeInvalid, "the kubeconfig: %s", err)
	}
	spdy, err := remotecommand.NewSPDYExecutor(b.config, http.MethodPost, at)
	if err != nil {
		return nil, api.Errorf(api.CodeInvalid, "the kubeconfig: %s", err)
	}
	either, err := remotecommand.NewFallbackExecutor(socket, spdy, needsSPDY)
	if err != nil {
		return nil, err
	}
	return connect(either, b.namespace+"/"+pod.Name), nil
}

// findReady returns the first pod of a broker that is ready. A broker that stands by is not.
func (b *inPod) findReady(ctx context.Context, pods kubernetes.Interface) (*corev1.Pod, error) {
	all, err := pods.CoreV1().Pods(b.namespace).List(ctx, metav1.ListOptions{LabelSelector: brokerLabel})
	if err != nil {
		return nil, kubeobject.Error(err)
	}
	for i, pod := range all.Items {
		for _, c := range pod.Status.Conditions {
			if c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue {
				return &all.Items[i], nil
			}
		}
	}
	if len(all.Items) == 0 {
		return nil, api.Errorf(api.CodeNotFound, "namespace %s has no pod of a broker", b.namespace).
			Fix("name the broker's namespace and cluster: -n NAMESPACE --context NAME")
	}
	return nil, api.Errorf(api.CodeUnavailable, "no pod of a broker in namespace %s is ready", b.namespace).
		Fix("see: kubectl -n %s get pods; kubectl -n %s logs %s", b.namespace, b.namespace, all.Items[0].Name)
}

// piped is a connection by the standard input and output of a command in a pod.
type piped struct {
	toPod
	out   *io.PipeReader // what the command writes
	in    *io.PipeWriter
	stop  context.CancelFunc
	ended chan struct{} // closed once cause is set
	cause error         // why the command ended; io.EOF if it did not fail
}

// connect runs the command until it ends, or the connection is closed.
func connect(run remotecommand.Executor, pod string) *piped {
	ctx, stop := context.WithCancel(context.Background())
	stdin, in := io.Pipe()
	out, stdout := io.Pipe()
	p := &piped{toPod: toPod{pod}, out: out, in: in, stop: stop, ended: make(chan struct{})}
	go func() {
		stderr := &bounded{}
		err := run.StreamWithContext(ctx, remotecommand.StreamOptions{Stdin: stdin, Stdout: stdout, Stderr: stderr})
		p.cause = stderr.cause(pod, err)
		close(p.ended)
		_ = stdout.CloseWithError(p.cause)
		_ = stdin.Close()
	}()
	return p
}

func (p *piped) Read(b []byte) (int, error) {
	n, err := p.out.Read(b)
	return n, p.explain(err)
}

func (p *piped) Write(b []byte) (int, error) {
	n, err := p.in.Write(b)
	return n, p.explain(err)
}

// explain returns why the command ended in place of the error of a closed pipe. A caller meets the end by reading or by
// writing, also after its own Close.
func (p *piped) explain(err error) error {
	if !errors.Is(err, io.ErrClosedPipe) {
		return err
	}
	select {
	case <-p.ended:
		if !errors.Is(p.cause, io.EOF) {
			return p.cause
		}
	default:
	}
	return net.ErrClosed
}

// Close ends the command.
func (p *piped) Close() error {
	p.stop()
	_ = p.in.Close()
	return p.out.Close()
}

// bounded keeps the first bytes of what a command writes to its standard error.
type bounded struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (b *bounded) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.text.Write(p[:min(len(p), maxReason-b.text.Len())])
	return len(p), nil
}

// cause returns why a command ended: what it wrote, else the error of the connection. io.EOF is no failure.
func (b *bounded) cause(pod string, err error) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if text := strings.TrimSpace(b.text.String()); text != "" {
		text = api.WithoutCode(strings.TrimPrefix(text, "error: "))
		return api.Errorf(api.CodeUnavailable, "bourse broker stdio in pod %s: %s", pod, text)
	}
	if err == nil || errors.Is(err, context.Canceled) {
		return io.EOF
	}
	return api.Errorf(api.CodeOf(kubeobject.Error(err)), "exec in pod %s: %s", pod, err)
}
