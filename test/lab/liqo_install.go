package lab

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"sigs.k8s.io/yaml"

	bourse "github.com/bourse-dev/bourse/config"
)

// liqoSource is the folder of the pinned Liqo's own files: its definitions, roles and webhooks are
// taken from there.
func liqoSource(ctx context.Context) (string, error) {
	dir, err := findSource(liqoModule)
	if err != nil {
		return "", err
	}
	cmd := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}", liqoModule.versioned)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), "GOWORK=off")
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("find Liqo's files: %w", err)
	}
	return filepath.Join(strings.TrimSpace(string(out)), "deployments", "liqo"), nil
}

// liqoDefinitions are Liqo's CustomResourceDefinitions, without descriptions: they are most of 3
// MB, which each API server would keep several times.
func (q *liqo) definitions() ([][]byte, error) {
	files, err := filepath.Glob(filepath.Join(q.source, "charts", "liqo-crds", "crds", "*.yaml"))
	if err != nil || len(files) == 0 {
		return nil, fmt.Errorf("Liqo's definitions: %d files, %w", len(files), err)
	}
	var all [][]byte
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		var crd map[string]any
		if err := yaml.Unmarshal(text, &crd); err != nil {
			return nil, fmt.Errorf("%s: %w", filepath.Base(file), err)
		}
		forgetDescriptions(crd)
		brief, err := json.Marshal(crd)
		if err != nil {
			return nil, err
		}
		all = append(all, brief)
	}
	return all, nil
}

func forgetDescriptions(v any) {
	switch v := v.(type) {
	case map[string]any:
		if _, is := v["description"].(string); is {
			delete(v, "description")
		}
		for _, part := range v {
			forgetDescriptions(part)
		}
	case []any:
		for _, part := range v {
			forgetDescriptions(part)
		}
	}
}

// roles are the ClusterRoles that Liqo's controllers look up by name and label.
func (q *liqo) roles() ([][]byte, error) {
	var all [][]byte
	for _, name := range []string{"remote-controlplane", "virtual-kubelet-local",
		"virtual-kubelet-remote", "virtual-kubelet-remote-clusterwide"} {
		rules, err := os.ReadFile(filepath.Join(q.source, "files", "liqo-"+name+"-ClusterRole.yaml"))
		if err != nil {
			return nil, err
		}
		head := fmt.Sprintf("apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata: {name: liqo-%s, labels: {app.kubernetes.io/name: %[1]s}}\n", name)
		all = append(all, append([]byte(head), rules...))
	}
	return all, nil
}

// webhooks are Liqo's webhook configurations, which call a URL instead of a Service: there are no pods. They have
// the conditions of config/liqo-webhook.
func (q *liqo) webhooks(from *chart, ca []byte) ([][]byte, error) {
	var all [][]byte
	for _, kind := range []string{"mutating", "validating"} {
		rendered, err := from.render("webhooks/liqo-" + kind + "-webhook.yaml")
		if err != nil {
			return nil, err
		}
		var config unstructured.Unstructured
		if err := yaml.Unmarshal(rendered, &config.Object); err != nil {
			return nil, err
		}
		hooks, _, err := unstructured.NestedSlice(config.Object, "webhooks")
		if err != nil {
			return nil, err
		}
		for _, hook := range hooks {
			path, _, _ := unstructured.NestedString(hook.(map[string]any), "clientConfig", "service", "path")
			hook.(map[string]any)["clientConfig"] = map[string]any{"url": fmt.Sprintf("https://127.0.0.1:%d%s",
				q.webhook, path), "caBundle": ca}
		}
		config.Object["webhooks"] = hooks
		encoded, err := json.Marshal(config.Object)
		if err != nil {
			return nil, err
		}
		patched, err := checkAmounts(kind, encoded)
		if err != nil {
			return nil, err
		}
		all = append(all, patched)
	}
	return all, nil
}

// checkAmounts patches a webhook configuration as docs/liqo.md has an admin do it: kubectl patch --patch-file.
func checkAmounts(kind string, configuration []byte) ([]byte, error) {
	patch, typed := bourse.MutatingWebhook, any(admissionv1.MutatingWebhookConfiguration{})
	if kind == "validating" {
		patch, typed = bourse.ValidatingWebhook, admissionv1.ValidatingWebhookConfiguration{}
	}
	encoded, err := yaml.YAMLToJSON(patch)
	if err != nil {
		return nil, err
	}
	return strategicpatch.StrategicMergePatch(configuration, encoded, typed)
}

// liqoObjects are what else Liqo's chart puts into a cluster, as far as the control plane needs it.
// Virtual kubelets are processes of ours, so their Deployments have no replicas; they serve logs by
// a certificate of their own, and leave the provider's pods without access to the consumer's API
// server.
const liqoObjects = `
apiVersion: node.k8s.io/v1
kind: RuntimeClass
metadata: {name: liqo}
handler: liqo
scheduling:
  nodeSelector: {liqo.io/type: virtual-node}
  tolerations: [{key: virtual-node.liqo.io/not-allowed, operator: Exists, effect: NoExecute}]
---
apiVersion: v1
kind: ConfigMap
metadata: {name: liqo-clusterid-configmap, namespace: liqo, labels: {app.kubernetes.io/name: clusterid-configmap}}
data: {CLUSTER_ID: %s}
---
apiVersion: offloading.liqo.io/v1beta1
kind: VkOptionsTemplate
metadata: {name: virtual-kubelet-default, namespace: liqo}
spec:
  replicas: 0
  createNode: true
  disableNetworkCheck: %t
  containerImage: localhost/liqo/liqo-virtual-kubelet:v1.2.0
  metricsEnabled: false
  reflectorsConfig:
    pod: {workers: 4}
    service: {workers: 1, type: DenyList}
    endpointslice: {workers: 1}
    ingress: {workers: 1, type: DenyList}
    configmap: {workers: 1, type: DenyList}
    secret: {workers: 1, type: DenyList}
    serviceaccount: {workers: 1}
    persistentvolumeclaim: {workers: 1}
    event: {workers: 1, type: DenyList}
  extraArgs: ["--certificate-type=self-signed", "--enable-apiserver-support=false"]
`

const liqoNamespace = "apiVersion: v1\nkind: Namespace\nmetadata: {name: liqo}\n"

// installLiqo applies all objects of a Liqo.
func (c *Cluster) installLiqo(ctx context.Context) error {
	definitions, err := c.liqo.definitions()
	if err != nil {
		return err
	}
	roles, err := c.liqo.roles()
	if err != nil {
		return err
	}
	from, err := openChart(c.liqo.source, c.chartValues())
	if err != nil {
		return err
	}
	webhooks, err := c.liqo.webhooks(from, c.admin.CAData)
	if err != nil {
		return err
	}
	manifests := append(definitions, []byte(liqoNamespace), fmt.Appendf(nil, liqoObjects, c.name, c.machine == nil))
	for _, d := range callers {
		deployment, err := c.liqoDeployment(d)
		if err != nil {
			return err
		}
		manifests = append(manifests, deployment)
	}
	if c.machine != nil {
		networking, err := c.networking(from)
		if err != nil {
			return err
		}
		manifests = append(manifests, networking...)
	}
	return c.Apply(ctx, append(append(manifests, roles...), webhooks...)...)
}
