package install

import (
	"context"
	"fmt"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/charts"
	"github.com/bourse-dev/bourse/internal/agent/scheme"
	"github.com/bourse-dev/bourse/internal/kubeobject"
)

// brokerNamespace is the namespace of the rendered broker.
const brokerNamespace = "bourse-broker"

// BrokerInstallation is what `bourse broker init` puts into a cluster: what the chart bourse-broker
// renders, with the operator's answers.
type BrokerInstallation struct {
	Namespace string
	Image     string
	// Hosts are the names by which members reach the broker. URL goes into join tokens; empty: the first host and Port.
	Hosts []string
	URL   string
	// Port is the port of the listener, of the Service and, with the type NodePort, of each node.
	Port int32
	// Service is the type of the Service.
	Service corev1.ServiceType
	// Storage is the size of the volume for the journal.
	Storage resource.Quantity
}

// Objects returns all objects, in the order in which Apply applies them.
func (i BrokerInstallation) Objects() []client.Object {
	all := decodeAll(charts.Broker, i.Namespace)
	service, broker := find[*corev1.Service](all), find[*appsv1.StatefulSet](all)
	service.Spec.Type, service.Spec.Ports[0].Port = i.Service, i.Port
	switch i.Service {
	case corev1.ServiceTypeNodePort:
		service.Spec.Ports[0].NodePort = i.Port
	case corev1.ServiceTypeClusterIP:
		service.Spec.ExternalTrafficPolicy = ""
	}
	c := &broker.Spec.Template.Spec.Containers[0]
	c.Image, c.Ports[0].ContainerPort = i.Image, i.Port
	var args []string
	for _, arg := range c.Args {
		switch {
		case strings.HasPrefix(arg, "--listen="):
			args = append(args, fmt.Sprintf("--listen=:%d", i.Port))
		case strings.HasPrefix(arg, "--host="):
			for _, host := range i.Hosts {
				args = append(args, "--host="+host)
			}
			if i.URL != "" {
				args = append(args, "--url="+i.URL)
			}
		default:
			args = append(args, arg)
		}
	}
	c.Args = args
	broker.Spec.VolumeClaimTemplates[0].Spec.Resources.Requests[corev1.ResourceStorage] = i.Storage
	return append([]client.Object{namespace(i.Namespace)}, all...)
}

// Apply applies all objects with the rights of an admin, and reports each. It can be repeated.
// Errors: Conflict where Helm or Argo CD installed the broker; then nothing is changed.
func (i BrokerInstallation) Apply(ctx context.Context, cluster *rest.Config, tell func(string)) error {
	c, err := client.New(cluster, client.Options{Scheme: scheme.New()})
	if err != nil {
		return kubeobject.Error(err)
	}
	broker := &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Namespace: i.Namespace, Name: "broker"}}
	if err := checkOwner(ctx, c, broker); err != nil {
		return err
	}
	return applyAll(ctx, c, i.Objects(), tell)
}

// applyAll applies objects in order, and reports each.
func applyAll(ctx context.Context, c client.Client, all []client.Object, tell func(string)) error {
	for _, o := range all {
		fields, err := Manifest(o)
		if err != nil {
			return err
		}
		if err := c.Apply(ctx, client.ApplyConfigurationFromUnstructured(fields),
			client.FieldOwner("bourse-init"), client.ForceOwnership); err != nil {
			return kubeobject.Error(err)
		}
		tell(fmt.Sprintf("%s %s applied", fields.GetKind(), fields.GetName()))
	}
	return nil
}
