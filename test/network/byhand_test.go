package network

import (
	"context"
	"fmt"
	"strings"
	"testing"

	networkingv1beta1 "github.com/liqotech/liqo/apis/networking/v1beta1"
	"github.com/liqotech/liqo/pkg/consts"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kube "sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/liqo"
	"github.com/bourse-dev/bourse/internal/liqo/network"
	"github.com/bourse-dev/bourse/test/e2e/federation"
	"github.com/bourse-dev/bourse/test/lab"
)

// byHand makes a network between the two clusters as `liqoctl network connect` does: Liqo makes the keys.
func (w *world) byHand(t *testing.T) []kube.Object {
	t.Helper()
	heard := &api.HandshakeNetwork{PodCIDRs: []string{"10.200.0.0/16"}, ExternalCIDRs: []string{"10.70.0.0/16"}}
	var made []kube.Object
	create := func(at *federation.Member, o kube.Object) {
		t.Helper()
		delete(o.GetLabels(), "app.kubernetes.io/managed-by")
		eventually(t, fmt.Sprintf("%T can be made at %s", o, at.Name), func(ctx context.Context) error {
			return at.Objects.Create(ctx, o)
		})
		made = append(made, o)
	}
	await := func(at *federation.Member, o kube.Object, done func() bool) {
		t.Helper()
		eventually(t, fmt.Sprintf("%T of %s is ready", o, at.Name), func(ctx context.Context) error {
			err := at.Objects.Get(ctx, kube.ObjectKeyFromObject(o), o)
			if err == nil && !done() {
				err = fmt.Errorf("it is %+v", o)
			}
			return err
		})
	}
	for at, peer := range map[*federation.Member]*federation.Member{w.rome: w.milan, w.milan: w.rome} {
		var namespace string
		eventually(t, at.Name+" has a namespace for the network", func(ctx context.Context) (err error) {
			namespace, err = liqo.EnsureTenantNamespace(ctx, at.Objects, peer.Name)
			return err
		})
		create(at, network.NewConfiguration(namespace, peer.Name, heard))
	}
	server := network.NewServer("liqo-tenant-rome", "rome", lab.LiqoNamespace, network.GatewayNodePort)
	server.Spec.SecretRef.Name = ""
	create(w.milan, server)
	await(w.milan, server, func() bool {
		return server.Status.Endpoint != nil && server.Status.Endpoint.Port != 0 && server.Status.SecretRef != nil
	})
	at := server.Status.Endpoint
	client := network.NewClient("liqo-tenant-milan", "milan", lab.LiqoNamespace,
		&api.HandshakeEndpoint{Addresses: at.Addresses, Port: at.Port, Protocol: string(*at.Protocol)})
	client.Spec.SecretRef.Name = ""
	create(w.rome, client)
	await(w.rome, client, func() bool { return client.Status.SecretRef != nil })
	w.trusts(t, create, w.rome, w.milan, server.Status.SecretRef)
	w.trusts(t, create, w.milan, w.rome, client.Status.SecretRef)
	return made
}

// trusts gives a cluster the public key of the peer's gateway.
func (w *world) trusts(
	t *testing.T, create func(*federation.Member, kube.Object), at, peer *federation.Member, ref *corev1.ObjectReference,
) {
	t.Helper()
	secret := &corev1.Secret{}
	eventually(t, peer.Name+"'s gateway has keys", func(ctx context.Context) error {
		return peer.Objects.Get(ctx, kube.ObjectKey{Namespace: ref.Namespace, Name: ref.Name}, secret)
	})
	create(at, &networkingv1beta1.PublicKey{
		ObjectMeta: metav1.ObjectMeta{Namespace: "liqo-tenant-" + peer.Name, Name: peer.Name, Labels: map[string]string{
			consts.RemoteClusterID: peer.Name, consts.GatewayResourceLabel: consts.GatewayResourceLabelValue,
		}},
		Spec: networkingv1beta1.PublicKeySpec{PublicKey: secret.Data[consts.PublicKeyField]},
	})
}

// usesAHandMadeNetwork makes a network by hand, and demands that a reservation uses it and leaves it alone. Then
// it removes the network.
func (w *world) usesAHandMadeNetwork(t *testing.T) {
	t.Helper()
	made := w.byHand(t)
	r := w.borrow(t, "third")
	w.becomes(t, r, api.Active)
	w.networkIs(t, r, metav1.ConditionTrue, "Connected")
	here := w.serve(t, w.rome, "third", "local", false)
	there := w.serve(t, w.rome, "third", "remote", true)
	w.answers(t, here, there.Status.PodIP+":8080", "remote")
	w.end(t, r, "remote")
	w.answersTunnel(t)
	for _, o := range made {
		has := o.DeepCopyObject().(kube.Object)
		at := w.rome
		if o.GetNamespace() == "liqo-tenant-rome" {
			at = w.milan
		}
		err := at.Objects.Get(t.Context(), kube.ObjectKeyFromObject(o), has)
		if err != nil || has.GetUID() != o.GetUID() || has.GetDeletionTimestamp() != nil {
			t.Errorf("%T %s of %s was not left there: %+v, %v", o, o.GetName(), at.Name, has, err)
		}
		for _, by := range has.GetManagedFields() { // this test's client is bourse-lab
			if strings.HasPrefix(by.Manager, "bourse") && by.Manager != "bourse-lab" {
				t.Errorf("%T %s of %s was written by %s", o, o.GetName(), at.Name, by.Manager)
			}
		}
		if err := at.Objects.Delete(t.Context(), o); err != nil {
			t.Error(err)
		}
	}
	w.nothingLeft(t)
}

// answersTunnel demands that the tunnel stands.
func (w *world) answersTunnel(t *testing.T) {
	t.Helper()
	eventually(t, "rome's Connection stands", func(ctx context.Context) error {
		var list networkingv1beta1.ConnectionList
		err := w.rome.Objects.List(ctx, &list)
		if err == nil && (len(list.Items) != 1 || list.Items[0].Status.Value != networkingv1beta1.Connected) {
			err = fmt.Errorf("it is %+v", list.Items)
		}
		return err
	})
}
