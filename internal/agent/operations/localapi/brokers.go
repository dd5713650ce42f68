package localapi

import (
	"context"
	"encoding/json"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/kubeobject"
)

// Brokers returns how all brokers of this cluster stand, the main one first.
func (c *Cluster) Brokers(ctx context.Context) ([]api.Envelope[api.KnownBroker], error) {
	return c.o.Brokers.List(ctx)
}

// PutBroker creates a Broker, or changes it. Without a token, the one that the object has stays.
// Errors: Invalid.
func (c *Cluster) PutBroker(ctx context.Context, name string,
	spec api.BrokerSpec) (out api.Envelope[api.KnownBroker], err error) {
	if err := c.o.Brokers.Check(name, spec); err != nil {
		return out, err
	}
	object := &api.Broker{ObjectMeta: metav1.ObjectMeta{Namespace: c.o.Namespace, Name: name}, Spec: spec}
	// all of them: our cache may lag behind the last change
	fields := map[string]any{"disabled": spec.Disabled, "url": nil}
	if spec.URL != "" {
		fields["url"] = spec.URL
	}
	if spec.Join != "" {
		fields["join"] = spec.Join
	}
	patch, err := json.Marshal(map[string]any{"spec": fields})
	if err != nil {
		return out, err
	}
	if err = c.o.Client.Patch(ctx, object, client.RawPatch(types.MergePatchType, patch)); apierrors.IsNotFound(err) {
		if spec.Join == "" && name != api.MainBroker {
			return out, api.Invalid("join", "there is no broker %s here, and no token to join one", name).
				Fix("ask the broker's operator for one (bourse broker token create), and give it: bourse brokers add "+
					"%s --join TOKEN", name)
		}
		object.Spec = spec
		err = c.o.Client.Create(ctx, object)
	}
	if err != nil {
		return out, kubeobject.Error(err)
	}
	object.Spec.Join = ""
	return api.Envelope[api.KnownBroker]{ID: name, Revision: uint64(object.Generation),
		Payload: api.KnownBroker{Spec: object.Spec, Status: object.Status}}, nil
}

// DeleteBroker deletes a Broker. Errors: Invalid for the main one; NotFound.
func (c *Cluster) DeleteBroker(ctx context.Context, name string) error {
	if name == api.MainBroker {
		return api.Invalid("name", "%s is the broker that the agent was started with", name).
			Fix("disable it: bourse brokers disable %s", name)
	}
	object := &api.Broker{ObjectMeta: metav1.ObjectMeta{Namespace: c.o.Namespace, Name: name}}
	return kubeobject.Error(c.o.Client.Delete(ctx, object))
}
