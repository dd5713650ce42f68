package lab

import (
	"context"
	_ "embed"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// The daemons of a real node, besides containerd.
const (
	kubeletDaemon Daemon = "kubelet"
	proxyDaemon   Daemon = "kube-proxy"
)

// kubeletModule is not kubernetesModule: KWOK, which is there, needs other versions of libraries.
var kubeletModule = module{"kubelet", "k8s.io/kubernetes"}

var kubeletPrograms = []program{
	{kubeletDaemon, "k8s.io/kubernetes/cmd/kubelet"},
	{proxyDaemon, "k8s.io/kubernetes/cmd/kube-proxy"},
}

// Image is the one that a real node has, besides its pause image. Its program answers HTTP on port
// 8080, as "web" of package guest; /bin/get asks; busybox is its shell.
const Image = "localhost/work:v1"

const pauseImage = "localhost/pause:v1"

var (
	kubeletPackages = append([]string{"containerd", "runc", "containernetworking-plugins"}, machinePackages...)
	kubeletModules  = append([]string{
		"overlay", "br_netfilter", "nft_reject_ipv6", "nft_fib_ipv6", "nf_conntrack",
	}, machineModules...)
)

//go:embed machine-kubelet
var machineKubelet string

// containerdConfig leaves out what the machine has no kernel module for.
const containerdConfig = `version = 2
disabled_plugins = [
  "io.containerd.snapshotter.v1.aufs", "io.containerd.snapshotter.v1.btrfs", "io.containerd.snapshotter.v1.devmapper",
  "io.containerd.snapshotter.v1.zfs", "io.containerd.internal.v1.opt", "io.containerd.internal.v1.tracing",
  "io.containerd.tracing.processor.v1.otlp",
]
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "` + pauseImage + `"
  disable_apparmor = true
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "/usr/lib/cni"
    conf_dir = "/etc/node/cni"
`

// kubeletConfig lets every client that reaches the kubelet ask it: only this machine can.
const kubeletConfig = `apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
authentication: {anonymous: {enabled: true}, webhook: {enabled: false}}
authorization: {mode: AlwaysAllow}
cgroupDriver: cgroupfs
containerRuntimeEndpoint: unix:///run/containerd/containerd.sock
evictionHard: {memory.available: 1Mi, nodefs.available: 1Mi}
nodeStatusUpdateFrequency: 2s
`

// networkConfig is that of the pods. Nothing leaves the machine.
const networkConfig = `{"cniVersion": "0.4.0", "name": "lab", "plugins": [{
  "type": "bridge", "bridge": "cni0", "isGateway": true, "hairpinMode": true,
  "ipam": {"type": "host-local", "ranges": [[{"subnet": %q}]], "routes": [{"dst": "0.0.0.0/0"}]}
}]}`

// Machine is that of a real node, in which its logs are in /run/log; nil if there is none.
func (c *Cluster) Machine(node string) *Machine {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.real[node]
}

// startRealNode boots the machine of a real node, and returns when its kubelet is Ready.
func (c *Cluster) startRealNode(ctx context.Context, n Node) error {
	tree, err := fetchTree(ctx, c.lab.progress, "120 MB", kubeletPackages)
	if err != nil {
		return err
	}
	bin, err := build(ctx, c.lab.progress, kubeletModule, kubeletPrograms)
	if err != nil {
		return err
	}
	port, err := FreePort()
	if err != nil {
		return err
	}
	spec := machineSpec{
		dir: filepath.Join(c.dir, n.Name), tree: tree, memory: 2048, modules: kubeletModules, port: port,
	}
	spec.fill = func(i *image) error { return c.fillNode(i, bin, spec.dir) }
	m, err := c.lab.bootMachine(ctx, spec)
	if err != nil {
		return err
	}
	c.mu.Lock()
	c.real[n.Name] = m
	c.mu.Unlock()
	// The kubelet keeps addresses that a cloud gave its Node. By this one the API server reaches it.
	node := Node{Name: n.Name, Labels: n.Labels, NotReady: true}.object()
	node.Status.Capacity, node.Status.Allocatable = nil, nil
	if _, err := c.client.CoreV1().Nodes().Create(ctx, node, metav1.CreateOptions{}); err != nil {
		return err
	}
	if _, err := m.Run(ctx, fmt.Sprintf("name=%s port=%d\n%s", n.Name, port, machineKubelet)); err != nil {
		return err
	}
	return c.await(ctx, "the kubelet of "+n.Name, func(ctx context.Context) error {
		node, err := c.client.CoreV1().Nodes().Get(ctx, n.Name, metav1.GetOptions{})
		if err == nil && !isReady(node) {
			err = fmt.Errorf("it says %+v", node.Status.Conditions)
		}
		return err
	})
}

func isReady(node *corev1.Node) bool {
	return slices.ContainsFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
	})
}

// fillNode adds the programs of the node, its configuration and its images of containers.
func (c *Cluster) fillNode(i *image, bin Binaries, dir string) error {
	for _, tool := range []string{
		"usr/bin/containerd", "usr/bin/containerd-shim-runc-v2", "usr/bin/ctr", "usr/sbin/runc",
		"usr/lib/cni/bridge", "usr/lib/cni/host-local", "usr/lib/cni/loopback",
	} {
		i.tool(tool)
	}
	for _, p := range kubeletPrograms {
		i.copy("/usr/bin/"+string(p.name), bin.Path(p.name))
	}
	kubeconfig, err := clientcmd.Write(clientcmdapi.Config{
		Clusters: map[string]*clientcmdapi.Cluster{"": {
			Server:                   fmt.Sprintf("https://10.0.2.2:%d", c.port.number),
			CertificateAuthorityData: c.admin.CAData, TLSServerName: "127.0.0.1",
		}},
		AuthInfos: map[string]*clientcmdapi.AuthInfo{"": {Token: c.admin.BearerToken}},
		Contexts:  map[string]*clientcmdapi.Context{"": {}},
	})
	if err != nil {
		return err
	}
	for name, content := range map[string]string{
		"containerd.toml": containerdConfig, "kubelet.yaml": kubeletConfig, "kubeconfig": string(kubeconfig),
		"cni/lab.conflist": fmt.Sprintf(networkConfig, c.podCIDR()),
	} {
		i.add("/etc/node/"+name, fs.FileMode(0o600), []byte(content))
	}
	guest, err := os.ReadFile(filepath.Join(dir, "guest"))
	if err != nil {
		return err
	}
	shell, err := os.ReadFile(filepath.Join(i.tree, "bin/busybox"))
	if err != nil {
		return err
	}
	images, err := containerImages(map[string]string{Image: "/bin/web", pauseImage: "/bin/pause"},
		map[string][]byte{"bin/web": guest, "bin/busybox": shell},
		map[string]string{"bin/get": "web", "bin/pause": "web", "bin/sh": "busybox", "bin/sleep": "busybox"})
	i.add("/images/all.tar", 0o644, images)
	return err
}
