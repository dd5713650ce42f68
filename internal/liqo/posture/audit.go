package posture

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"slices"

	authv1beta1 "github.com/liqotech/liqo/apis/authentication/v1beta1"
	offv1beta1 "github.com/liqotech/liqo/apis/offloading/v1beta1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/liqo"
	"github.com/bourse-dev/bourse/internal/liqo/guard"
	"github.com/bourse-dev/bourse/internal/liqo/network"
)

// Audit lists the rights of a consumer in this cluster, also those that others gave it, and its
// workloads here. The reservations and the key are for others to add. r must read from the API
// server.
func Audit(ctx context.Context, r client.Reader, consumer string) (*api.Audit, error) {
	a := &api.Audit{Cluster: consumer, Quotas: map[string]api.Resources{}}
	namespace, err := liqo.TenantNamespace(ctx, r, consumer)
	if err != nil {
		return nil, err
	}
	if namespace != "" {
		if err := certificates(ctx, r, a, namespace); err != nil {
			return nil, err
		}
	}
	users := []string{consumer}
	for _, c := range a.Certificates {
		users = append(users, c.User)
	}
	if err := quotas(ctx, r, a, users); err != nil {
		return nil, err
	}
	all, err := ReadBindings(ctx, r)
	if err != nil {
		return nil, err
	}
	for _, b := range all.of(users...) {
		a.Bindings = append(a.Bindings, b.name+" -> "+b.role)
	}
	if a.Network, err = network.Reached(ctx, r, consumer, true); err != nil {
		return nil, err
	}
	return a, namespaces(ctx, r, a)
}

// certificates are those of its control plane and of its virtual kubelets.
func certificates(ctx context.Context, r client.Reader, a *api.Audit, namespace string) error {
	var tenants authv1beta1.TenantList
	if err := r.List(ctx, &tenants, client.InNamespace(namespace)); err != nil {
		return err
	}
	var slices authv1beta1.ResourceSliceList
	if err := r.List(ctx, &slices, client.InNamespace(namespace)); err != nil {
		return err
	}
	var issued []*authv1beta1.AuthParams
	for _, t := range tenants.Items {
		issued = append(issued, t.Status.AuthParams)
	}
	for _, s := range slices.Items {
		issued = append(issued, s.Status.AuthParams)
	}
	for _, i := range issued {
		if i == nil {
			continue
		}
		block, _ := pem.Decode(i.SignedCRT)
		if block == nil {
			continue // from EKS: it has none
		}
		certificate, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return err
		}
		a.Certificates = append(a.Certificates, api.AuditCertificate{User: certificate.Subject.CommonName,
			Until: metav1.NewTime(certificate.NotAfter)})
	}
	return nil
}

func quotas(ctx context.Context, r client.Reader, a *api.Audit, users []string) error {
	var list offv1beta1.QuotaList
	if err := r.List(ctx, &list); err != nil {
		return err
	}
	for _, q := range list.Items {
		if slices.Contains(users, q.Spec.User) {
			a.Quotas[q.Spec.User] = api.Resources(q.Spec.Resources)
		}
	}
	return nil
}

// namespaces are those that Liqo made for the consumer's own.
func namespaces(ctx context.Context, r client.Reader, a *api.Audit) error {
	var list corev1.NamespaceList
	if err := r.List(ctx, &list); err != nil {
		return err
	}
	for _, ns := range list.Items {
		if !guard.Mapped(&ns) || liqo.Peer(&ns) != a.Cluster {
			continue
		}
		n := api.AuditNamespace{Name: ns.Name}
		var pods corev1.PodList
		if err := r.List(ctx, &pods, client.InNamespace(ns.Name)); err != nil {
			return err
		}
		n.Pods = len(pods.Items)
		var volumes corev1.PersistentVolumeClaimList
		if err := r.List(ctx, &volumes, client.InNamespace(ns.Name)); err != nil {
			return err
		}
		for _, v := range volumes.Items {
			n.Volumes = append(n.Volumes, v.Name)
		}
		a.Namespaces = append(a.Namespaces, n)
	}
	return nil
}
