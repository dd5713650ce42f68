package lab

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// patience is how long one daemon may take to become ready, on a machine that is busy with other things.
const patience = 2 * time.Minute

// Polls are the intervals in which a test asks whether something is so. They grow from 25 ms to 250 ms in the
// first three seconds: more questions would take the processors from the daemons that are waited for.
var Polls = wait.Backoff{Duration: 25 * time.Millisecond, Factor: 1.1, Steps: 30, Cap: 250 * time.Millisecond}

// ClusterOptions say what a cluster is.
type ClusterOptions struct {
	// Name of the cluster, unique in its lab; also the name of its folder and of its kubeconfig's context.
	Name string
	// Light leaves out controller-manager, scheduler and KWOK. Nothing moves by itself then: pods
	// stay where they are put, with the status they are given; deleted namespaces do not go away.
	// It saves a second and a third of the memory.
	Light bool
	// CRDs, if any, are applied before the controllers start, as by ApplyFS: the garbage collector
	// then knows their kinds at once, and not after its next discovery, 30 s later.
	CRDs fs.FS
	// Nodes to begin with, as by AddNodes.
	Nodes []Node
	// Liqo installs the real Liqo, with the cluster's name as its ID.
	Liqo bool
	// Machine, with Liqo, gives the cluster one node in it, named like the cluster, and Liqo its network. All
	// such clusters have the same addresses for pods. A pod with the image "web" answers HTTP on port 8080.
	Machine *Machine
	// PortForwards are what KWOK forwards, as a kubelet does. A Light cluster has KWOK for them.
	PortForwards []PortForward
	// Execs are the pods in which KWOK runs commands, also those of a Light cluster.
	Execs []Exec
	// Flags are added to a daemon's own, and win over them: {APIServer:
	// {"--default-not-ready-toleration-seconds=3"}}.
	Flags map[Daemon][]string
}

// Cluster is a running cluster. Its methods may be called concurrently, but a daemon that is being
// killed or started makes others wait.
type Cluster struct {
	name   string
	number int
	light  bool
	dir    string
	lab    *Lab
	port   *port
	extra  map[Daemon][]string
	admin  *rest.Config
	client kubernetes.Interface
	liqo   *liqo // nil without

	machine     *Machine // nil without
	stopMachine func()

	served  []string // what KWOK does as a kubelet, as objects of its configuration
	kubelet int      // KWOK's port, if it does that

	mu      sync.Mutex
	running map[Daemon]*process
	real    map[string]*Machine // by the name of the real node
}

// Cluster starts a cluster and returns when it serves: roles bootstrapped, controllers and
// scheduler at work, nodes Ready, and pods may be created in namespace default. On an error nothing
// of it keeps running.
func (l *Lab) Cluster(ctx context.Context, o ClusterOptions) (*Cluster, error) {
	begin := time.Now()
	c := &Cluster{
		name: o.Name, light: o.Light, dir: filepath.Join(l.dir,
			o.Name), lab: l, extra: o.Flags, running: map[Daemon]*process{}, real: map[string]*Machine{},
		machine: o.Machine,
	}
	for _, f := range o.PortForwards {
		c.served = append(c.served, f.config())
	}
	for _, e := range o.Execs {
		c.served = append(c.served, e.config())
	}
	var err error
	if o.Liqo {
		if c.liqo, err = l.newLiqo(ctx); err != nil {
			return nil, err
		}
	}
	if c.number, err = l.admit(c); err != nil {
		return nil, err
	}
	if err := c.boot(ctx, o); err != nil {
		c.killAll()
		return nil, fmt.Errorf("cluster %q: %w", o.Name, err)
	}
	l.say("cluster %s is up after %.1fs", c.name, time.Since(begin).Seconds())
	return c, nil
}

func (c *Cluster) boot(ctx context.Context, o ClusterOptions) error {
	if err := c.prepare(); err != nil {
		return err
	}
	if err := c.Start(ctx, Etcd, APIServer); err != nil {
		return err
	}
	if o.CRDs != nil {
		if err := c.ApplyFS(ctx, o.CRDs); err != nil {
			return err
		}
	}
	if c.liqo != nil { // before the garbage collector starts, for the same reason
		if err := c.installLiqo(ctx); err != nil {
			return err
		}
	}
	if err := c.Start(ctx, c.daemons()...); err != nil {
		return err
	}
	if err := c.AddNodes(ctx, o.Nodes...); err != nil {
		return err
	}
	if c.light {
		return nil
	}
	if c.machine != nil {
		var err error
		if c.stopMachine, err = c.startMachineNode(ctx); err != nil {
			return err
		}
	}
	if c.liqo != nil {
		if err := c.startLiqo(ctx); err != nil {
			return err
		}
	}
	return c.await(ctx, "the ServiceAccount that pods in namespace default need", func(ctx context.Context) error {
		_, err := c.client.CoreV1().ServiceAccounts("default").Get(ctx, "default", metav1.GetOptions{})
		return err
	})
}

// prepare makes all that a cluster has before its first daemon runs.
func (c *Cluster) prepare() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := os.Mkdir(c.dir, 0o700); err != nil {
		return err
	}
	var err error
	if c.port, err = reservePort(); err != nil {
		return err
	}
	credentials, err := writeCredentials(c.dir)
	if err != nil {
		return err
	}
	if len(c.served) > 0 {
		if c.kubelet, err = FreePort(); err != nil {
			return err
		}
	}
	if err := c.writeConfig(); err != nil {
		return err
	}
	c.admin = &rest.Config{
		Host:            fmt.Sprintf("https://127.0.0.1:%d", c.port.number),
		BearerToken:     credentials.token,
		TLSClientConfig: rest.TLSClientConfig{CAData: credentials.ca},
		UserAgent:       "bourse-lab",
		QPS:             -1,
	}
	if c.client, err = kubernetes.NewForConfig(c.admin); err != nil {
		return err
	}
	return WriteKubeconfig(c.Kubeconfig(), c.name, c.admin)
}

// Dir is the cluster's folder: NAME.log of each daemon, kubeconfig, audit.log.
func (c *Cluster) Dir() string { return c.dir }

// Start starts the daemons named that are not running, in this order, each when the one before is
// ready. Etcd and the API server come back with the state and the address that they had.
func (c *Cluster) Start(ctx context.Context, daemons ...Daemon) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, d := range daemons {
		if err := c.start(ctx, d); err != nil {
			return fmt.Errorf("start %s: %w", d, err)
		}
	}
	return nil
}

func (c *Cluster) start(ctx context.Context, d Daemon) error {
	select {
	case <-c.lab.Done():
		return c.lab.errEnded()
	default:
	}
	if c.running[d] != nil {
		return nil
	}
	if d == Kwok {
		if err := c.await(ctx, "the nodes of an earlier KWOK", c.freeNodes); err != nil {
			return err
		}
	}
	path, flags := c.lab.bin.Path(d), c.flags(d)
	crashed := func(err error) { c.lab.end(fmt.Errorf("cluster %q: %w", c.name, err)) }
	if d.isLiqo() {
		path, flags = c.liqo.bin.Path(d), append(c.liqoFlags(d), c.extra[d]...)
		crashed = func(err error) { c.revive(d, err) }
	}
	p, err := run(path, flags, c.dir, c.logOf(d), crashed, "KUBECONFIG="+c.Kubeconfig())
	if err != nil {
		return err
	}
	c.running[d] = p
	return c.ready(ctx, d)
}

func (c *Cluster) runs(d Daemon) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.running[d] != nil
}

// Kill ends daemons at once (SIGKILL), in this order, and returns when they are gone.
func (c *Cluster) Kill(daemons ...Daemon) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, d := range daemons {
		if p := c.running[d]; p != nil {
			p.kill()
			delete(c.running, d)
		}
	}
}

// Pause has a daemon stand still until resume is called: what happens meanwhile it sees late, or not at all.
func (c *Cluster) Pause(d Daemon) (resume func(), err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	p := c.running[d]
	if p == nil {
		return nil, fmt.Errorf("%s of cluster %q does not run", d, c.name)
	}
	p.signal(syscall.SIGSTOP)
	return func() { p.signal(syscall.SIGCONT) }, nil
}

// Restart kills a daemon and starts it again.
func (c *Cluster) Restart(ctx context.Context, d Daemon) error {
	c.Kill(d)
	return c.Start(ctx, d)
}

// killAll ends the cluster for good.
func (c *Cluster) killAll() {
	if c.stopMachine != nil {
		c.stopMachine()
	}
	if c.liqo != nil {
		if c.liqo.stop != nil {
			c.liqo.stop()
			c.liqo.running.Wait()
		}
		c.Kill(LiqoProxy, LiqoCRDReplicator, LiqoControllerManager, LiqoWebhook, LiqoIPAM)
	}
	c.Kill(stopOrder()...)
	c.port.release()
}

func (c *Cluster) logOf(d Daemon) string { return filepath.Join(c.dir, string(d)+".log") }

// ready waits until the API server serves what etcd holds. The other daemons are ready when they
// run: they try until they find their work.
func (c *Cluster) ready(ctx context.Context, d Daemon) error {
	if (d != Etcd && d != APIServer) || c.running[APIServer] == nil {
		return nil
	}
	return c.await(ctx, "the API server", func(ctx context.Context) error {
		if _, err := c.client.Discovery().RESTClient().Get().AbsPath("/readyz").DoRaw(ctx); err != nil {
			return err
		}
		// read from etcd, unlike readyz
		_, err := c.client.CoreV1().Namespaces().Get(ctx, metav1.NamespaceSystem, metav1.GetOptions{})
		return err
	})
}

// await asks until there is no error any more. It gives up with ctx, after patience, and when the lab ends.
func (c *Cluster) await(ctx context.Context, what string, ask func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for delay := Polls.DelayFunc(); ; {
		err := ask(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-time.After(delay()):
		case <-c.lab.Done():
			return c.lab.errEnded()
		case <-ctx.Done():
			return fmt.Errorf("wait for %s: %w; last answer: %w", what, ctx.Err(), err)
		}
	}
}
