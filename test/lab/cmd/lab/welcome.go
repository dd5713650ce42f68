package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	kube "sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/test/e2e/federation"
	"github.com/bourse-dev/bourse/test/lab"
)

// findKubectl is the path of a kubectl: the machine's, or one built beside the daemons.
func findKubectl(ctx context.Context) (string, error) {
	if path, err := exec.LookPath("kubectl"); err == nil {
		return path, nil
	}
	return lab.Kubectl(ctx, os.Stderr)
}

const text = `
Three clusters are up, with a broker and an agent in each:

  rome    %[6]s CPU   %[8]s   borrows
  milan   %[3]s CPU   %[8]s   lends 80 %%
  paris   32 CPU   region fr   lends all, at most 8 CPU to a reservation; 8 GPUs

In the browser, as the admin of each. A code lets one browser in:

%[9]s

In another terminal, as the admin of rome:

  source %[1]s/env                         # sets PATH, and KUBECONFIG for all clusters

  bourse clusters
  bourse reserve --cpu %[4]s --memory 512Mi %[7]s --for 1h
  bourse reserve --cpu 40 --memory 8Gi --dry-run
  bourse reservations
  bourse --context rome-ann ui             # the browser again, as ann

  kubectl apply -f %[1]s/request.yaml
  kubectl get resourcerequests
  kubectl describe resourcerequest training
  kubectl --context paris get providerinstructions -n bourse
  kubectl --context paris get advertisement -n bourse
  kubectl delete resourcerequest training

  kubectl --context paris cordon paris-1
  sleep 3; bourse clusters                 # paris has 16 CPU less

As ann, who may request in namespace team of rome:

  bourse --context rome-ann auth whoami
  bourse --context rome-ann reserve --cpu 1 --memory 512Mi --for 1h
  kubectl --context rome-ann get resourcerequests

Kill what you like, and start it again (etcd, kube-apiserver, agent and so on):

  lab kill milan agent
  lab start milan agent
  lab kill broker; lab start broker

%[5]sAs the operator of the broker: bourse --server unix://%[2]s broker members

`

const realText = `In milan's containers, and how they end:

  kubectl -n demo exec -it deployment/work -- sh
  kubectl --context milan -n demo-rome get pods --watch &
  kubectl -n demo delete pod -l app=work
  bourse --context milan evict rome

`

const storageText = `A volume of milan's or paris's, for a pod of rome:

  kubectl apply -f %[1]s/volume.yaml
  kubectl -n demo get pod,pvc --watch
  bourse release RESERVATION               # names the volume that would be deleted

`

const networkText = `What a pod is answered, at home, over the tunnel and by a Service:

  lab get rome demo/here http://127.0.0.1:8080
  lab get rome demo/here http://$(kubectl -n demo get pod there -o jsonpath={.status.podIP}):8080
  lab get rome demo/here http://$(kubectl -n demo get service site -o jsonpath={.spec.clusterIP})

`

const volume = `apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: data, namespace: demo}
spec:
  storageClassName: liqo
  accessModes: [ReadWriteOnce]
  resources: {requests: {storage: 1Gi}}
---
apiVersion: v1
kind: Pod
metadata: {name: keeps, namespace: demo}
spec:
  nodeSelector: {liqo.io/type: virtual-node}
  containers:
    - name: keeps
      image: %s
      resources: {requests: {cpu: 100m, memory: 64Mi}}
      volumeMounts: [{name: data, mountPath: /data}]
  volumes: [{name: data, persistentVolumeClaim: {claimName: data}}]
`

const request = `apiVersion: bourse.dev/v1alpha1
kind: ResourceRequest
metadata: {name: training, namespace: default}
spec:
  resources: {cpu: "8", memory: 64Gi, nvidia.com/gpu: "2"}
  where: '"NVIDIA-A100-SXM4-80GB" in gpus'
  duration: 2h
`

// welcome writes the files that people need into dir, serves the web UIs until end is called, and tells how to use all.
func welcome(ctx context.Context, out io.Writer, dir string, f *federation.Federation, kubectl string,
	o options) (end func(), err error) {
	end = func() {}
	if err := os.Symlink(kubectl, filepath.Join(dir, "bin", "kubectl")); err != nil && !errors.Is(err, fs.ErrExist) {
		return end, err
	}
	kubeconfig, err := writeContexts(ctx, dir, f)
	if err != nil {
		return end, err
	}
	links, end, err := servePages(ctx, dir, kubeconfig, f)
	if err != nil {
		return end, err
	}
	environment := fmt.Sprintf("export PATH=%q:\"$PATH\"\nexport KUBECONFIG=%q KUBECACHEDIR=%q\n",
		filepath.Join(dir, "bin"), kubeconfig, filepath.Join(dir, "cache"))
	files := map[string]string{"env": environment, "request.yaml": request}
	milanCPU, romeCPU, cpu, which, region, more := "64", "16", "4", `--where 'region == "it"'`, "region it", ""
	switch {
	case o.real:
		milanCPU, cpu, more = " 2", "500m", realText
	case o.storage:
		files["volume.yaml"], more = fmt.Sprintf(volume, lab.Image), fmt.Sprintf(storageText, dir)
	case o.network:
		milanCPU, romeCPU, cpu, which, region, more = " 8", " 8", "2", "--network wireguard", "no region", networkText
	}
	for name, content := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			return end, err
		}
	}
	fmt.Fprintf(out, text, dir, f.BrokerSocket, milanCPU, cpu, more, romeCPU, which, region, strings.Join(links, "\n"))
	for _, m := range f.Members {
		fmt.Fprintf(out, "  export KUBECONFIG=%s # %s\n", m.Cluster.Kubeconfig(), m.Name)
	}
	_, err = fmt.Fprintf(out, "\nLogs: %s/*.log and %[1]s/*/*.log. Ctrl-C ends it all.\n", dir)
	return end, err
}

// writeContexts writes one kubeconfig. It has a context for each cluster's admin, named as the cluster, and one for ann,
// named CLUSTER-ann. The first is the current one.
func writeContexts(ctx context.Context, dir string, f *federation.Federation) (string, error) {
	path := filepath.Join(dir, "kubeconfig")
	rules := &clientcmd.ClientConfigLoadingRules{}
	for _, m := range f.Members {
		ann := filepath.Join(m.Cluster.Dir(), "ann.kubeconfig")
		if err := makeAnn(ctx, m, ann); err != nil {
			return "", err
		}
		rules.Precedence = append(rules.Precedence, m.Cluster.Kubeconfig(), ann)
	}
	all, err := rules.Load()
	if err != nil {
		return "", err
	}
	return path, clientcmd.WriteToFile(*all, path)
}

// makeAnn makes a user who may request in namespace team, and writes her kubeconfig. She is a ServiceAccount, which needs
// only a token.
func makeAnn(ctx context.Context, m *federation.Member, path string) error {
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "ann"}}
	bind := func(namespace, kind, role string) *rbacv1.RoleBinding {
		return &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "ann"},
			RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: kind, Name: role},
			Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: account.Namespace, Name: account.Name}}}
	}
	for _, o := range []kube.Object{
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: account.Namespace}}, account,
		bind(account.Namespace, "ClusterRole", "bourse-requester"), bind(api.Namespace, "Role", "bourse-port-forward"),
	} {
		if err := m.Objects.Create(ctx, o); err != nil {
			return err
		}
	}
	lasts := int64((30 * 24 * time.Hour).Seconds())
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: &lasts}}
	if err := m.Objects.SubResource("token").Create(ctx, account, request); err != nil {
		return err
	}
	name, server := m.Name+"-ann", m.Cluster.Config()
	return clientcmd.WriteToFile(clientcmdapi.Config{
		Clusters:  map[string]*clientcmdapi.Cluster{name: {Server: server.Host, CertificateAuthorityData: server.CAData}},
		AuthInfos: map[string]*clientcmdapi.AuthInfo{name: {Token: request.Status.Token}},
		Contexts:  map[string]*clientcmdapi.Context{name: {Cluster: name, AuthInfo: name, Namespace: account.Namespace}},
	}, path)
}
