package install

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/config"
	"github.com/bourse-dev/bourse/internal/agent/scheme"
	"github.com/bourse-dev/bourse/internal/kubeobject"
)

// BrokerInstallation is what `bourse broker init` puts into a cluster: config/broker, with the operator's answers.
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
	var namespace corev1.Namespace
	var service corev1.Service
	var broker appsv1.StatefulSet
	documents := bytes.Split(config.Broker, []byte("\n---\n"))
	decode(documents[0], &namespace)
	decode(documents[1], &service)
	decode(documents[2], &broker)
	namespace.Name, service.Namespace, broker.Namespace = i.Namespace, i.Namespace, i.Namespace
	service.Spec.Type, service.Spec.Ports[0].Port = i.Service, i.Port
	switch i.Service {
	case corev1.ServiceTypeNodePort:
		service.Spec.Ports[0].NodePort = i.Port
	case corev1.ServiceTypeClusterIP:
		service.Spec.ExternalTrafficPolicy = ""
	}
	c := &broker.Spec.Template.Spec.Containers[0]
	c.Image, c.Ports[0].ContainerPort = i.Image, i.Port
	at := slices.IndexFunc(c.Args, func(arg string) bool { return strings.HasPrefix(arg, "--host=") })
	args := []string{fmt.Sprintf("--listen=:%d", i.Port)}
	for _, host := range i.Hosts {
		args = append(args, "--host="+host)
	}
	if i.URL != "" {
		args = append(args, "--url="+i.URL)
	}
	c.Args = slices.DeleteFunc(slices.Replace(c.Args, at, at+1, args...), func(arg string) bool {
		return strings.HasPrefix(arg, "--listen=") && arg != args[0]
	})
	broker.Spec.VolumeClaimTemplates[0].Spec.Resources.Requests[corev1.ResourceStorage] = i.Storage
	return []client.Object{&namespace, &service, &broker}
}

// Apply applies all objects with the rights of an admin, and reports each. It can be repeated.
func (i BrokerInstallation) Apply(ctx context.Context, cluster *rest.Config, tell func(string)) error {
	c, err := client.New(cluster, client.Options{Scheme: scheme.New()})
	if err != nil {
		return kubeobject.Error(err)
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
