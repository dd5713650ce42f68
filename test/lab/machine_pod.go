package lab

import (
	"encoding/base64"
	"fmt"
	"path"
	"path/filepath"
	"strings"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

func podDir(p *corev1.Pod) string { return "/run/pods/" + string(p.UID) }

// startPod gives a pod its network, volumes and processes, and reports it Ready.
func (n *machineNode) startPod(p *corev1.Pod) error {
	address, namespace := n.NodeAddress(), "node-"+n.name
	var script strings.Builder
	script.WriteString(n.kill(p)) // what is left if it was started in part
	fmt.Fprintf(&script, "mkdir -p %s /sys/fs/cgroup/%s\n", podDir(p), p.UID)
	if !p.Spec.HostNetwork {
		address, namespace = fmt.Sprintf("%s%d", n.podNet(), n.next), string(p.UID)
		if strings.HasPrefix(p.Namespace, "liqo-tenant-") {
			// A gateway of Liqo v1.2 does not reach a pod of the other cluster that has the
			// gateway's own address.
			address = fmt.Sprintf("10.200.%d.%d", 101+n.number, n.next)
		}
		fmt.Fprintf(&script, `
/bin/ip netns add %[1]s
/bin/ip link add veth%[2]d netns node-%[3]s type veth peer name %[4]s netns %[1]s
nsenter --net=/run/netns/node-%[3]s /bin/ip link set veth%[2]d master cni0 up
nsenter --net=/run/netns/%[1]s sh -e <<'END'
/bin/ip link set lo up
/bin/ip address add %[5]s/16 dev %[4]s
/bin/ip link set %[4]s up
/bin/ip route add default via %[6]s1
END
`, namespace, n.next, n.name, n.device, address, n.podNet())
		n.next++
	}
	if err := n.volumes(&script, p); err != nil {
		return err
	}
	for _, c := range p.Spec.Containers {
		n.container(&script, p, c, namespace, address)
	}
	if _, err := n.Machine.Run(n.ctx, script.String()); err != nil {
		return err
	}
	if err := n.report(p, corev1.PodRunning, address); err != nil {
		return err
	}
	n.pods[p.UID] = p
	return nil
}

// volumes writes a pod's Secrets, and the kubeconfig of its ServiceAccount.
func (n *machineNode) volumes(script *strings.Builder, p *corev1.Pod) error {
	file := func(name string, content []byte) {
		at := filepath.Join(podDir(p), name)
		fmt.Fprintf(script, "mkdir -p %s; echo %s | base64 -d > %s\n",
			filepath.Dir(at), base64.StdEncoding.EncodeToString(content), at)
	}
	for _, v := range p.Spec.Volumes {
		fmt.Fprintf(script, "mkdir -p %s/%s\n", podDir(p), v.Name)
		if v.Secret == nil {
			continue
		}
		secret, err := n.client.CoreV1().Secrets(p.Namespace).Get(n.ctx, v.Secret.SecretName, metav1.GetOptions{})
		if err != nil {
			return err
		}
		for key, content := range secret.Data {
			file(v.Name+"/"+key, content)
		}
	}
	request := &authenticationv1.TokenRequest{}
	account, err := n.client.CoreV1().ServiceAccounts(p.Namespace).CreateToken(n.ctx,
		p.Spec.ServiceAccountName, request, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	config, err := clientcmd.Write(clientcmdapi.Config{
		Clusters: map[string]*clientcmdapi.Cluster{"": {
			Server: fmt.Sprintf("https://%s:%d",
				hostFromMachine, n.port.number), CertificateAuthorityData: n.admin.CAData, TLSServerName: "127.0.0.1",
		}},
		AuthInfos: map[string]*clientcmdapi.AuthInfo{"": {Token: account.Status.Token}},
		Contexts:  map[string]*clientcmdapi.Context{"": {}},
	})
	file("kubeconfig", config)
	return err
}

// container starts one: the program named like its image, in the pod's network, with its volumes, again and
// again as a kubelet does.
func (n *machineNode) container(script *strings.Builder, p *corev1.Pod, c corev1.Container, namespace, address string) {
	var inner strings.Builder
	for _, mount := range c.VolumeMounts {
		if at := filepath.Join(podDir(p), mount.Name); !strings.HasPrefix(mount.MountPath, "/var/run/secrets/") {
			fmt.Fprintf(&inner, "mkdir -p %s; mount --bind %s %s\n", mount.MountPath, at, mount.MountPath)
		}
	}
	fmt.Fprintf(&inner, "export POD_NAME=%s POD_NAMESPACE=%s POD_IP=%s NODE_NAME=%s KUBECONFIG=%s/kubeconfig\n",
		p.Name, p.Namespace, address, n.name, podDir(p))
	for _, e := range c.Env {
		if e.Value != "" {
			fmt.Fprintf(&inner, "export %s='%s'\n", e.Name, e.Value)
		}
	}
	fmt.Fprintf(&inner, "while :; do /images/%s", imageOf(c))
	for _, arg := range c.Args {
		arg = strings.NewReplacer("$(POD_NAME)", p.Name, "$(POD_IP)", address, "$(NODE_NAME)", n.name,
			"'", `'\''`).Replace(arg)
		fmt.Fprintf(&inner, " '%s'", arg)
	}
	inner.WriteString("; echo ended, and started again; sleep 1; done\n")
	script.WriteString(pull(imageOf(c)))
	fmt.Fprintf(script, `cat > %[1]s/%[2]s.sh <<'END'
echo $$ > /sys/fs/cgroup/%[3]s/cgroup.procs
%[4]sEND
setsid nsenter --net=/run/netns/%[5]s unshare -m sh %[1]s/%[2]s.sh > /run/log/%[6]s_%[7]s_%[2]s.log 2>&1 < /dev/null &
`, podDir(p), c.Name, p.UID, inner.String(), namespace, p.Namespace, p.Name)
}

// imageOf is the name of a container's program: its image without registry and version.
func imageOf(c corev1.Container) string {
	image, _, _ := strings.Cut(c.Image, ":")
	if name, is := strings.CutPrefix(image, "ghcr.io/liqotech/"); is {
		return "liqo-" + strings.ReplaceAll(name, "/", "-")
	}
	return path.Base(image)
}

// kill is the script that ends a pod's processes and removes its network.
func (n *machineNode) kill(p *corev1.Pod) string {
	return fmt.Sprintf(`echo 1 > /sys/fs/cgroup/%[1]s/cgroup.kill || true
[ ! -e /run/netns/%[1]s ] || /bin/ip netns delete %[1]s
rm -rf %[2]s
`, p.UID, podDir(p))
}

// endPod ends a pod, reports that it has failed, as killed programs have, and removes it.
func (n *machineNode) endPod(p *corev1.Pod) error {
	if _, runs := n.pods[p.UID]; runs {
		if _, err := n.Machine.Run(n.ctx, n.kill(p)); err != nil {
			return err
		}
		delete(n.pods, p.UID)
		if err := n.report(p, corev1.PodFailed, p.Status.PodIP); err != nil {
			return err
		}
	}
	now := int64(0)
	err := n.client.CoreV1().Pods(p.Namespace).Delete(n.ctx, p.Name, metav1.DeleteOptions{
		GracePeriodSeconds: &now, Preconditions: &metav1.Preconditions{UID: &p.UID},
	})
	return ignoreGone(err)
}

// report writes a pod's status.
func (n *machineNode) report(p *corev1.Pod, phase corev1.PodPhase, address string) error {
	p, now := p.DeepCopy(), metav1.Now()
	condition := corev1.ConditionTrue
	state := corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: now}}
	if phase != corev1.PodRunning {
		condition = corev1.ConditionFalse
		state = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 137,
			Reason: "Error", FinishedAt: now}}
	}
	p.Status.Phase, p.Status.HostIP, p.Status.HostIPs = phase, n.NodeAddress(), []corev1.HostIP{{IP: n.NodeAddress()}}
	p.Status.PodIP, p.Status.PodIPs = address, []corev1.PodIP{{IP: address}}
	p.Status.StartTime, p.Status.ContainerStatuses, p.Status.Conditions = &now, nil, nil
	for _, c := range p.Spec.Containers {
		started := phase == corev1.PodRunning
		p.Status.ContainerStatuses = append(p.Status.ContainerStatuses, corev1.ContainerStatus{
			Name: c.Name, Image: c.Image, ImageID: c.Image, Ready: started, Started: &started, State: state,
		})
	}
	for _, kind := range []corev1.PodConditionType{corev1.PodScheduled,
		corev1.PodInitialized, corev1.ContainersReady, corev1.PodReady} {
		c := corev1.PodCondition{Type: kind, Status: condition, LastTransitionTime: now}
		if kind == corev1.PodScheduled || kind == corev1.PodInitialized {
			c.Status = corev1.ConditionTrue
		}
		p.Status.Conditions = append(p.Status.Conditions, c)
	}
	p.ResourceVersion = ""
	_, err := n.client.CoreV1().Pods(p.Namespace).UpdateStatus(n.ctx, p, metav1.UpdateOptions{})
	return ignoreGone(err)
}
