package liqo

import (
	"context"
	"fmt"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/version"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Installation is the configuration of a cluster's Liqo, read from its controller manager's Deployment.
type Installation struct {
	// Version is "v1.2.0"; empty: unknown.
	Version string
	// APIServer is the URL that Liqo gives to consumers; empty: unknown.
	APIServer string
	// LimitsEnforcement applies to peerings that admins make: None, Soft or Hard.
	LimitsEnforcement string
	// Networking: Liqo's network module is installed, with which pods of two clusters reach each other.
	Networking bool
	// DefaultClassClosed: Liqo's own class of slices, which grants every amount, is switched off. Liqo can do so since 1.3.
	DefaultClassClosed bool
	// Off lists disabled modules that lending and borrowing need: "authentication", "offloading".
	Off string
}

// LabelsNodes reports whether Liqo labels each virtual node type=virtual-kubelet, as it does since 1.3.
func (i Installation) LabelsNodes() bool { return i.isLater() }

// CanCloseDefaultClass reports whether Liqo's own class of slices can be switched off, as it can since 1.3.
func (i Installation) CanCloseDefaultClass() bool { return i.isLater() }

// isLater reports whether this is Liqo 1.3 or newer.
func (i Installation) isLater() bool {
	minor, err := version.ParseGeneric(Minor(i.Version))
	return err == nil && minor.AtLeast(version.MustParseGeneric("1.3"))
}

const controllerManager = "liqo-controller-manager"

// ReadInstallation reads the configuration. It returns the zero value without such a Deployment.
func ReadInstallation(ctx context.Context, r client.Reader, namespace string) (Installation, error) {
	var d appsv1.Deployment
	if err := r.Get(ctx, client.ObjectKey{Namespace: namespace, Name: controllerManager}, &d); err != nil {
		return Installation{}, client.IgnoreNotFound(err)
	}
	var args []string
	out := Installation{Version: d.Labels["app.kubernetes.io/version"]}
	for _, c := range d.Spec.Template.Spec.Containers {
		if strings.Contains(c.Image, controllerManager) {
			args = append(c.Command, c.Args...)
			if _, tag, ok := strings.Cut(c.Image[strings.LastIndexByte(c.Image, '/')+1:], ":"); ok && out.Version == "" {
				out.Version = tag
			}
		}
	}
	if _, err := version.ParseSemantic(out.Version); err != nil {
		out.Version = ""
	}
	out.APIServer, out.LimitsEnforcement = argument(args, "api-server-address-override"), argument(args,
		"default-limits-enforcement")
	out.DefaultClassClosed = argument(args, "default-resource-slice-class-enabled") == "false"
	out.Networking = argument(args, "networking-enabled") != "false"
	for _, module := range []string{"authentication", "offloading"} {
		if argument(args, module+"-enabled") == "false" {
			out.Off = strings.TrimSpace(out.Off + " " + module)
		}
	}
	if out.APIServer != "" && !strings.HasPrefix(out.APIServer, "https://") {
		out.APIServer = "https://" + out.APIServer
	}
	if out.APIServer != "" {
		return out, nil
	}
	var err error
	out.APIServer, err = controlPlane(ctx, r)
	return out, err
}

// ClusterIDConfig is the ConfigMap where Liqo keeps the ID of its cluster, and clusterIDKey the key there. From
// github.com/liqotech/liqo v1.2.0, deployments/liqo/templates/liqo-clusterid-configmap.yaml.
const (
	ClusterIDConfig = "liqo-clusterid-configmap"
	clusterIDKey    = "CLUSTER_ID"
)

// ReadClusterID reads the ID that Liqo gave the cluster. Empty: it has none yet.
func ReadClusterID(ctx context.Context, r client.Reader, namespace string) (string, error) {
	var m corev1.ConfigMap
	err := r.Get(ctx, client.ObjectKey{Namespace: namespace, Name: ClusterIDConfig}, &m)
	return m.Data[clusterIDKey], client.IgnoreNotFound(err)
}

func argument(args []string, name string) string {
	for i, a := range args {
		if value, ok := strings.CutPrefix(a, "--"+name+"="); ok {
			return value
		}
		if a == "--"+name && i+1 < len(args) {
			return args[i+1]
		}
	}
	return ""
}

// controlPlane returns Liqo's default address: port 6443 of the first control plane node. A managed
// control plane has no such node, so an admin must configure the address.
func controlPlane(ctx context.Context, r client.Reader) (string, error) {
	for _, label := range []string{"node-role.kubernetes.io/control-plane",
		"node-role.kubernetes.io/master", "node-role.kubernetes.io/controlplane"} {
		var nodes corev1.NodeList
		if err := r.List(ctx, &nodes, client.HasLabels{label}); err != nil {
			if apierrors.IsForbidden(err) {
				return "", nil
			}
			return "", err
		}
		for _, n := range nodes.Items {
			for _, a := range n.Status.Addresses {
				if a.Type == corev1.NodeInternalIP {
					return fmt.Sprintf("https://%s:6443", a.Address), nil
				}
			}
		}
	}
	return "", nil
}

// Minor returns the minor version of a version, such as "1.2"; empty if text is not a version.
func Minor(text string) string {
	v, err := version.ParseSemantic(text)
	if err != nil {
		return ""
	}
	return fmt.Sprintf("%d.%d", v.Major(), v.Minor())
}
