package cluster

import (
	"cmp"
	"context"
	"encoding/json"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kube "sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/due"
	"github.com/bourse-dev/bourse/internal/identity"
	"github.com/bourse-dev/bourse/internal/identity/join"
	"github.com/bourse-dev/bourse/internal/kubeobject"
	"github.com/bourse-dev/bourse/internal/market"
)

// put changes an object, or creates it where it does not exist. change may be called twice. It is for changes that do not
// depend on what the user saw. Errors: Conflict if it changes meanwhile, or if Git would undo the change.
func (c *Client) put(ctx context.Context, object kube.Object, change func()) error {
	err := c.objects.Get(ctx, kube.ObjectKeyFromObject(object), object)
	if apierrors.IsNotFound(err) {
		change()
		return kubeobject.Error(c.objects.Create(ctx, object))
	} else if err != nil {
		return kubeobject.Error(err)
	}
	if err := c.checkGit(object); err != nil {
		return err
	}
	return c.patch(ctx, object, change)
}

// delete deletes an object as it is now, and none that takes its place. Errors: NotFound; Conflict if Git would make it
// again.
func (c *Client) delete(ctx context.Context, object kube.Object) error {
	if err := c.objects.Get(ctx, kube.ObjectKeyFromObject(object), object); err != nil {
		return kubeobject.Error(err)
	}
	if err := c.checkGit(object); err != nil {
		return err
	}
	uid := object.GetUID()
	return kubeobject.Error(c.objects.Delete(ctx, object, kube.Preconditions{UID: &uid}))
}

// Offers returns what the cluster sells.
func (c *Client) Offers(ctx context.Context) ([]api.Envelope[api.OwnOffer], error) {
	var all api.OfferList
	err := c.objects.List(ctx, &all, kube.InNamespace(c.AgentNamespace(ctx)))
	return api.Envelopes(all.Items, (*api.Offer).Envelope), kubeobject.Error(err)
}

// PutOffer creates an Offer, or replaces the one that is there. Errors: Invalid.
func (c *Client) PutOffer(ctx context.Context, name string, spec api.OfferSpec) (out api.Envelope[api.OwnOffer], err error) {
	object := &api.Offer{ObjectMeta: c.own(ctx, name)}
	if err := checkOffer(name, spec); err != nil {
		return out, err
	}
	err = c.put(ctx, object, func() { c.offer(object, spec) })
	return object.Envelope(), err
}

// EditOffer has a user change an Offer, who may take long. Errors: NotFound, Invalid; Conflict if it changed meanwhile;
// those of change.
func (c *Client) EditOffer(ctx context.Context, name string,
	change func(*api.OfferSpec) error) (out api.Envelope[api.OwnOffer], err error) {
	object := &api.Offer{ObjectMeta: c.own(ctx, name)}
	if err := c.objects.Get(ctx, kube.ObjectKeyFromObject(object), object); apierrors.IsNotFound(err) {
		return out, api.Errorf(api.CodeNotFound, "your cluster has no offer %q", name).FixBy("see", "bourse", "offer", "list")
	} else if err != nil {
		return out, kubeobject.Error(err)
	}
	spec := *object.Spec.DeepCopy()
	if err := c.checkGit(object); err != nil {
		return out, err
	}
	if err := cmp.Or(change(&spec), checkOffer(name, spec)); err != nil {
		return out, err
	}
	err = c.patch(ctx, object, func() { c.offer(object, spec) })
	return object.Envelope(), err
}

// TryOffer returns the error of EditOffer, and writes nothing.
func (c *Client) TryOffer(ctx context.Context, name string, change func(*api.OfferSpec) error) error {
	try := *c
	try.objects = kube.NewDryRunClient(c.objects)
	_, err := try.EditOffer(ctx, name, change)
	return err
}

// offer changes an Offer by hand: it is no answer to a proposal any more, and one that a broker took off sale is
// published again.
func (c *Client) offer(object *api.Offer, spec api.OfferSpec) {
	object.Spec = spec
	delete(object.Labels, api.AnswersLabel)
	now := c.Now().UTC().Format(time.RFC3339Nano) // two orders of one second differ
	metav1.SetMetaDataAnnotation(&object.ObjectMeta, api.Group+"/publish-again", now)
}

// checkOffer returns what the agent would refuse in an Offer.
func checkOffer(name string, spec api.OfferSpec) error {
	return market.CheckOffer(&api.SignedOffer{Protocol: api.Protocol, Seller: "self", Name: name, Version: 1, Offer: spec})
}

// DeleteOffer deletes an Offer. Errors: NotFound.
func (c *Client) DeleteOffer(ctx context.Context, name string) error {
	return c.delete(ctx, &api.Offer{ObjectMeta: c.own(ctx, name)})
}

// Contracts returns the contracts that the user may list: those of the namespaces and, with a right to list those of the
// agent, what the cluster sold.
func (c *Client) Contracts(ctx context.Context) ([]api.Envelope[api.Deal], error) {
	out := []api.Envelope[api.Deal]{}
	err := list(ctx, c, true, func(namespace string, all *api.ContractList) error {
		used, err := c.used(ctx, namespace)
		if err != nil {
			return err
		}
		for i := range all.Items {
			deal := dealOf(&all.Items[i], c.Now())
			deal.Payload.Used = used[deal.ID]
			out = append(out, deal)
		}
		return nil
	})
	return out, err
}

// used returns what the instructions of a namespace show as used, by NAMESPACE/RESERVATION, as far as the user may see
// it. What was sold is in the agent's namespace.
func (c *Client) used(ctx context.Context, namespace string) (map[string]api.Resources, error) {
	out := map[string]api.Resources{}
	var bought api.ReservationInstructionList
	if err := c.objects.List(ctx, &bought, kube.InNamespace(namespace), kube.UnsafeDisableDeepCopy); err != nil && !apierrors.IsForbidden(err) {
		return nil, kubeobject.Error(err)
	}
	for _, i := range bought.Items {
		out[i.Namespace+"/"+i.Name] = i.Status.Used
	}
	if namespace != metav1.NamespaceAll && namespace != c.AgentNamespace(ctx) {
		return out, nil
	}
	var sold api.ProviderInstructionList
	if err := c.objects.List(ctx, &sold, kube.InNamespace(c.AgentNamespace(ctx))); err != nil && !apierrors.IsForbidden(err) {
		return nil, kubeobject.Error(err)
	}
	for _, i := range sold.Items {
		out[i.Namespace+"/"+i.Name] = i.Status.Used
	}
	return out, nil
}

// dealOf returns a contract with what is due now: its status has that of up to an hour ago.
func dealOf(o *api.Contract, now time.Time) api.Envelope[api.Deal] {
	deal := api.Deal{Spec: o.Spec, Status: o.Status, Due: due.At(o.Status, now)}
	return api.Envelope[api.Deal]{ID: o.Namespace + "/" + o.Name, Revision: uint64(o.Generation), Payload: deal}
}

// Peers returns the clusters that this one has met, or whose key an admin named.
func (c *Client) Peers(ctx context.Context) ([]api.Envelope[api.KnownPeer], error) {
	var all api.PeerList
	err := c.objects.List(ctx, &all, kube.InNamespace(c.AgentNamespace(ctx)))
	return api.Envelopes(all.Items, (*api.Peer).Envelope), kubeobject.Error(err)
}

// Trust names the key of a cluster. Errors: Invalid.
func (c *Client) Trust(ctx context.Context, peer, fingerprint string) (api.Envelope[api.KnownPeer], error) {
	return c.AddPeer(ctx, peer, fingerprint, "")
}

// AddPeer names the key of a cluster, and the address of its connector. Errors: Invalid.
func (c *Client) AddPeer(ctx context.Context, peer, fingerprint, address string) (api.Envelope[api.KnownPeer], error) {
	if _, err := identity.ParseFingerprint(fingerprint); err != nil && fingerprint != "" {
		return api.Envelope[api.KnownPeer]{}, api.Errorf(api.CodeInvalid, "%s", err).
			Fix("copy the fingerprint that `bourse status` prints at %s", peer)
	}
	if err := market.ValidAddress("address", address); err != nil {
		return api.Envelope[api.KnownPeer]{}, err
	}
	if self, err := c.Status(ctx); err == nil && self.Cluster == peer {
		return api.Envelope[api.KnownPeer]{}, api.Invalid("cluster", "%s is this cluster", peer).Fix("name the other one")
	}
	return c.editPeer(ctx, peer, func(s *api.PeerSpec) {
		s.Fingerprint = fingerprint
		if address != "" || fingerprint == "" {
			s.Address = address
		}
	})
}

// Suspend lends a cluster nothing more. Errors: Invalid.
func (c *Client) Suspend(ctx context.Context, peer, reason string) (api.Envelope[api.KnownPeer], error) {
	return c.editPeer(ctx, peer, func(s *api.PeerSpec) { s.Suspend, s.SuspendReason = true, reason })
}

// Resume ends a suspension. Errors: Invalid.
func (c *Client) Resume(ctx context.Context, peer string) (api.Envelope[api.KnownPeer], error) {
	return c.editPeer(ctx, peer, func(s *api.PeerSpec) { s.Suspend, s.SuspendReason = false, "" })
}

// editPeer changes what an admin wrote into the Peer of a cluster.
func (c *Client) editPeer(ctx context.Context, peer string, change func(*api.PeerSpec)) (api.Envelope[api.KnownPeer], error) {
	if err := market.ValidCluster("cluster", peer); err != nil {
		return api.Envelope[api.KnownPeer]{}, err
	}
	object := &api.Peer{ObjectMeta: c.own(ctx, peer)}
	err := c.put(ctx, object, func() { change(&object.Spec) })
	return object.Envelope(), err
}

// VirtualNodePools returns the VirtualNodePools of the cluster.
func (c *Client) VirtualNodePools(ctx context.Context) ([]api.Envelope[api.KnownVirtualNodePool], error) {
	var all api.VirtualNodePoolList
	err := c.objects.List(ctx, &all)
	return api.Envelopes(all.Items, (*api.VirtualNodePool).Envelope), kubeobject.Error(err)
}

// AdmitProvider lets a provider serve a VirtualNodePool, or does not. Errors: NotFound, Invalid; Conflict if Git would
// undo that.
func (c *Client) AdmitProvider(ctx context.Context, name, provider string,
	admission api.Admission) (out api.Envelope[api.KnownVirtualNodePool], err error) {
	if err := market.ValidCluster("cluster", provider); err != nil {
		return out, err
	}
	pool := &api.VirtualNodePool{}
	if err := c.objects.Get(ctx, kube.ObjectKey{Name: name}, pool); err != nil {
		return out, kubeobject.Error(err)
	}
	after := pool.Spec.Providers.Admit(provider, admission.Admitted)
	if equality.Semantic.DeepEqual(after, pool.Spec.Providers) {
		return pool.Envelope(), nil
	}
	if by := kubeobject.GitOf(pool); by != "" {
		text, _ := json.Marshal(after) // strings and numbers have no text that fails
		return out, api.Errorf(api.CodeConflict, "%s keeps VirtualNodePool %s as it is in Git, and would undo the edit",
			by, name).Fix("write into Git: spec.providers: %s", text)
	}
	err = c.patch(ctx, pool, func() { pool.Spec.Providers = after })
	return pool.Envelope(), err
}

// StopVirtualNodePool deletes a VirtualNodePool: its virtual nodes are then emptied, and its reservations end. Errors:
// NotFound; Conflict if Git would undo that; VolumesAtStake if there are volumes that volumesDie does not give up.
func (c *Client) StopVirtualNodePool(ctx context.Context, name, volumesDie string) error {
	pool := &api.VirtualNodePool{}
	if err := c.objects.Get(ctx, kube.ObjectKey{Name: name}, pool); err != nil {
		return kubeobject.Error(err)
	}
	if by := kubeobject.GitOf(pool); by != "" && pool.DeletionTimestamp == nil {
		return api.Errorf(api.CodeConflict, "%s keeps VirtualNodePool %s as it is in Git, and would make it again", by, name).
			Fix("delete it in Git")
	}
	err := c.giveUp(ctx, pool, pool.Status.Volumes(), volumesDie, "VirtualNodePool "+name,
		"copy the data and delete the claims, or give the data up: bourse vnp stop "+name)
	if err != nil {
		return err
	}
	return kubeobject.Error(c.objects.Delete(ctx, pool, kube.Preconditions{UID: &pool.UID}))
}

// giveUp records in an object that the user gives up the volumes that end with it, nil for none. The controller of the
// object compares the list again before anything ends. name and remedy are for the error: the remedy ends with a command
// that takes the digest. Errors: VolumesAtStake if word is not the digest of the list.
func (c *Client) giveUp(ctx context.Context, object kube.Object, volumes *api.Volumes, word, name, remedy string) error {
	if volumes == nil || object.GetAnnotations()[api.VolumesMayDie] == volumes.Digest {
		return nil
	}
	if err := volumes.CheckGivenUp(word, name, remedy); err != nil {
		return err
	}
	return c.annotate(ctx, object, api.VolumesMayDie, word)
}

// PutBroker creates a Broker, or replaces what it says. Without a token, the one that the object has stays. Errors:
// those of EditBroker.
func (c *Client) PutBroker(ctx context.Context, name string, spec api.BrokerSpec) (api.Envelope[api.KnownBroker], error) {
	return c.EditBroker(ctx, name, func(b *api.BrokerSpec) {
		token := b.Join
		if *b = spec; spec.Join == "" {
			b.Join = token
		}
	})
}

// EditBroker changes a Broker, or creates it. change names fields. Errors: Invalid, also for a new one without a token.
func (c *Client) EditBroker(ctx context.Context, name string,
	change func(*api.BrokerSpec)) (out api.Envelope[api.KnownBroker], err error) {
	var fresh api.BrokerSpec
	if change(&fresh); fresh.Join != "" {
		if _, err := join.ParseToken(fresh.Join); err != nil {
			return out, api.Invalid("join", "%s", err).Fix("copy what bourse broker token create printed")
		}
	}
	object := &api.Broker{ObjectMeta: c.own(ctx, name)}
	if fresh.Join == "" && name != api.MainBroker {
		err := c.objects.Get(ctx, kube.ObjectKeyFromObject(object), object)
		if apierrors.IsNotFound(err) {
			return out, api.Invalid("join", "there is no broker %s here, and no token to join one", name).
				Fix("ask the broker's operator for one (bourse broker token create), and give it: bourse brokers add "+
					"%s --join TOKEN", name)
		}
	}
	err = c.put(ctx, object, func() { change(&object.Spec) })
	object.Spec.Join = ""
	return api.Envelope[api.KnownBroker]{ID: name, Revision: uint64(object.Generation),
		Payload: api.KnownBroker{Spec: object.Spec, Status: object.Status}}, err
}

// DeleteBroker deletes a Broker. Errors: Invalid for the main one; NotFound.
func (c *Client) DeleteBroker(ctx context.Context, name string) error {
	if name == api.MainBroker {
		return api.Invalid("name", "%s is the broker that the agent was started with", name).
			Fix("disable it: bourse brokers disable %s", name)
	}
	return c.delete(ctx, &api.Broker{ObjectMeta: c.own(ctx, name)})
}

// Advertisement returns what the cluster measured and shares. Errors: NotFound if it shares nothing.
func (c *Client) Advertisement(ctx context.Context) (out api.Advertisement, err error) {
	var all api.AdvertisementList
	if err := c.objects.List(ctx, &all, kube.InNamespace(c.AgentNamespace(ctx))); err != nil {
		return out, kubeobject.Error(err)
	}
	if len(all.Items) == 0 {
		return out, api.Errorf(api.CodeNotFound, "this cluster shares nothing").Fix("create a SharingPolicy: docs/lend.md")
	}
	return all.Items[0], nil
}
