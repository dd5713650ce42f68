package lab

import (
	"context"
	"crypto/tls"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Liqo's daemons, in the order in which they start. A virtual kubelet runs for each virtual node,
// the proxy to the API server only where it is started.
const (
	LiqoWebhook           Daemon = "liqo-webhook"
	LiqoControllerManager Daemon = "liqo-controller-manager"
	LiqoCRDReplicator     Daemon = "liqo-crd-replicator"
	LiqoVirtualKubelet    Daemon = "liqo-virtual-kubelet"
	LiqoProxy             Daemon = "liqo-proxy"
)

// LiqoVersion is that of the module whose daemons run.
const LiqoVersion = "v1.2.0"

// LiqoNamespace is where Liqo lives in a cluster.
const LiqoNamespace = "liqo"

// liqo is the Liqo of a cluster: the real control plane, its ID the cluster's name. It has no data
// plane, which needs real nodes: networking is off, and pods keep the addresses that KWOK gives
// them.
type liqo struct {
	bin     Binaries
	source  string // Liqo's own folder among the modules
	webhook int    // port
	proxy   int    // port
	ipam    int    // port

	stop    context.CancelFunc
	running sync.WaitGroup
}

// newLiqo finds or builds what Liqo needs.
func (l *Lab) newLiqo(ctx context.Context) (*liqo, error) {
	bin, err := BuildLiqo(ctx, l.progress)
	if err != nil {
		return nil, err
	}
	source, err := liqoSource(ctx)
	if err != nil {
		return nil, err
	}
	webhook, err := FreePort()
	if err != nil {
		return nil, err
	}
	proxy, err := FreePort()
	if err != nil {
		return nil, err
	}
	ipam, err := FreePort()
	return &liqo{bin: bin, source: source, webhook: webhook, proxy: proxy, ipam: ipam}, err
}

// ProxyPort is that on which LiqoProxy listens, on all addresses.
func (c *Cluster) ProxyPort() int { return c.liqo.proxy }

// startLiqo starts what installLiqo installed, and returns when it works.
func (c *Cluster) startLiqo(ctx context.Context) error {
	if err := c.webhookCertificate(); err != nil {
		return err
	}
	if c.machine != nil {
		if err := c.Start(ctx, LiqoIPAM); err != nil {
			return err
		}
	}
	if err := c.Start(ctx, LiqoWebhook, LiqoControllerManager, LiqoCRDReplicator); err != nil {
		return err
	}
	if err := c.await(ctx, "Liqo's webhook", func(context.Context) error {
		// whether it listens
		conn, err := tls.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", c.liqo.webhook), &tls.Config{InsecureSkipVerify: true})
		if err == nil {
			err = conn.Close()
		}
		return err
	}); err != nil {
		return err
	}
	if err := c.await(ctx, "Liqo's keys", func(ctx context.Context) error {
		_, err := c.client.CoreV1().Secrets(LiqoNamespace).Get(ctx, "authentication-keys", metav1.GetOptions{})
		return err
	}); err != nil {
		return err
	}
	own, stop := context.WithCancel(context.Background())
	c.liqo.stop = stop
	c.liqo.running.Go(func() { c.runKubelets(own) })
	return nil
}

// webhookCertificate puts the API server's certificate where the webhook looks for its own.
func (c *Cluster) webhookCertificate() error {
	// below TMPDIR, see controller-runtime's webhook server
	dir := filepath.Join(c.dir, "k8s-webhook-server", "serving-certs")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	for from, to := range map[string]string{"server.crt": "tls.crt", "server.key": "tls.key"} {
		if err := os.Link(filepath.Join(c.dir, from), filepath.Join(dir, to)); err != nil {
			return err
		}
	}
	return nil
}

// isLiqo says whether a daemon is Liqo's: these are restarted when they end untold, because
// liqo-controller-manager may panic (when a virtual node is deleted before its Node is there).
func (d Daemon) isLiqo() bool {
	return d == LiqoWebhook || d == LiqoControllerManager || d == LiqoCRDReplicator || d == LiqoProxy || d == LiqoIPAM
}

// revive starts a daemon of Liqo again that has ended untold.
func (c *Cluster) revive(d Daemon, cause error) {
	c.lab.say("cluster %s: %s is started again: %v", c.name, d, cause)
	time.Sleep(time.Second) // as a kubelet backs off
	c.mu.Lock()
	defer c.mu.Unlock()
	p := c.running[d]
	if p == nil {
		return // killed meanwhile
	}
	select {
	case <-p.done:
	default:
		return // killed and started again meanwhile
	}
	delete(c.running, d)
	if err := c.start(context.Background(), d); err != nil {
		c.lab.end(fmt.Errorf("cluster %q: %w", c.name, err))
	}
}

// liqoFlags are those of the daemons that run all the time.
func (c *Cluster) liqoFlags(d Daemon) []string {
	switch d {
	case LiqoWebhook:
		return []string{
			"--cluster-id=" + c.name,
			"--liqo-namespace=" + LiqoNamespace,
			fmt.Sprintf("--webhook-port=%d", c.liqo.webhook),
			"--metrics-address=0",
			"--health-probe-address=0",
			"--podcidr=" + c.podCIDR(),
			"--vk-options-default-template=" + LiqoNamespace + "/virtual-kubelet-default",
			"--enable-resource-enforcement",
			"--resource-validator-refresh-interval=5m",
		}
	case LiqoControllerManager:
		network := []string{"--networking-enabled=false"}
		if c.machine != nil {
			network = c.networkFlags()
		}
		return append([]string{
			"--cluster-id=" + c.name,
			"--liqo-namespace=" + LiqoNamespace,
			"--api-server-address-override=" + c.admin.Host,
			"--default-limits-enforcement=None", // the binary's own default is one that its Quota refuses
			"--default-node-resources=cpu=4,memory=8Gi,pods=110,ephemeral-storage=20Gi",
			"--enable-storage=false",
			"--foreign-cluster-ping-interval=2s",
			"--metrics-address=0",
			"--health-probe-address=0",
		}, network...)
	case LiqoIPAM:
		return []string{
			"--pod-name=ipam", fmt.Sprintf("--port=%d", c.liqo.ipam), "--sync-interval=2m", "--sync-graceperiod=30s",
			"--pools=10.0.0.0/8,192.168.0.0/16,172.16.0.0/12",
		}
	case LiqoProxy: // as in Liqo's chart: each request goes to the API server
		return []string{fmt.Sprintf("--port=%d", c.liqo.proxy), fmt.Sprintf("--force-host=127.0.0.1:%d", c.port.number)}
	default:
		return []string{"--cluster-id=" + c.name, "--metrics-address=0"}
	}
}
