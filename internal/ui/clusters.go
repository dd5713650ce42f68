package ui

import (
	"context"
	"net/http"
	"slices"

	"github.com/a-h/templ"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/ui/pages"
)

// others reads the clusters that the user may see.
func (u *UI) others(ctx context.Context, _ *http.Request) content {
	var o pages.Others
	var noClusters, noPeers error
	together(
		func() { o.Clusters, noClusters = u.source.clusters(ctx) },
		func() { o.Peers, noPeers = u.o.Reads.Peers(ctx) }, // who may not list them sees the clusters still
	)
	o.Failed, o.NoPeers = asError(noClusters), asError(noPeers)
	return content{title: "Clusters", body: func(v pages.View) templ.Component { return pages.Clusters(v, o) }}
}

// clusterActs are the acts of the page of a cluster.
var clusterActs = map[string]act{
	"trust":   (*UI).trust,
	"suspend": (*UI).suspend,
	"resume":  (*UI).resume,
	"evict":   (*UI).evict,
}

// cluster reads one other cluster with all that is between it and this one.
func (u *UI) cluster(ctx context.Context, r *http.Request) content {
	name := r.PathValue("cluster")
	o := pages.Other{Name: name}
	var known api.Envelope[api.Cluster]
	var peers []api.Envelope[api.KnownPeer]
	var offers []api.Envelope[api.Listing]
	var peerings []api.Peering
	var a api.Audit
	var noCluster, noPeers, noBetween, noPeerings, noOffers, noAudit error
	together(
		func() { known, noCluster = u.source.cluster(ctx, name) },
		func() { peers, noPeers = u.o.Reads.Peers(ctx) },
		func() { o.Between, noBetween = u.source.between(ctx, name) },
		func() { peerings, noPeerings = u.o.Reads.Peerings(ctx) },
		func() { offers, noOffers = u.source.offers(ctx) },
		func() { a, noAudit = u.source.audit(ctx, name) },
	)
	o.NoCluster, o.NoPeer, o.NoBetween = asError(noCluster), asError(noPeers), asError(noBetween)
	o.NoPeerings, o.NoOffers, o.NoAudit = asError(noPeerings), asError(noOffers), asError(noAudit)
	if noCluster == nil {
		o.Cluster = &known
	}
	if noAudit == nil {
		o.Audit = &a
	}
	if i := slices.IndexFunc(peers, func(p api.Envelope[api.KnownPeer]) bool { return p.ID == name }); i >= 0 {
		o.Peer = &peers[i]
		o.Git = u.o.Reads.GitOf(ctx, &api.Peer{ObjectMeta: metav1.ObjectMeta{
			Namespace: u.o.Reads.AgentNamespace(ctx), Name: name}})
	}
	if o.Cluster == nil && o.Peer == nil && len(o.Between) == 0 {
		err := error(o.NoCluster)
		for _, e := range []*api.Error{o.NoCluster, o.NoPeer, o.NoBetween} {
			if pages.IsLoading(e) {
				return u.failed(name, e)
			}
		}
		if o.NoCluster.Code == api.CodeNotFound {
			err = api.Errorf(api.CodeNotFound, "there is no cluster %.63q that this one may see", name).FixBy("see", "bourse", "clusters")
		}
		return u.failed(name, err)
	}
	for _, p := range peerings {
		if p.Spec.Cluster == name {
			o.Peerings = append(o.Peerings, p)
		}
	}
	for _, l := range offers {
		if l.Payload.Seller == name {
			o.Offers = append(o.Offers, l)
		}
	}
	return content{title: name, body: func(v pages.View) templ.Component { return pages.Cluster(v, o) }}
}

// trust confirms the key that the user saw, or names another one.
func (u *UI) trust(ctx context.Context, r *http.Request) ([]string, string, error) {
	name, fingerprint := r.PathValue("cluster"), r.PostForm.Get("fingerprint")
	if r.PostForm.Get("same") != "true" || fingerprint == "" {
		return nil, "", api.Invalid("same", "the fingerprints were not compared").
			Fix("ask the other admin for the fingerprint, compare it, then say so")
	}
	_, err := u.o.Acts.Trust(ctx, name, fingerprint)
	return []string{"clusters", name}, "The key of " + name + " is confirmed. Nothing is agreed under another one.", err
}

func (u *UI) suspend(ctx context.Context, r *http.Request) ([]string, string, error) {
	name := r.PathValue("cluster")
	_, err := u.o.Acts.Suspend(ctx, name, r.PostForm.Get("reason"))
	return []string{"clusters", name}, name + " is suspended: it gets nothing more, and what it has stays.", err
}

func (u *UI) resume(ctx context.Context, r *http.Request) ([]string, string, error) {
	name := r.PathValue("cluster")
	_, err := u.o.Acts.Resume(ctx, name)
	return []string{"clusters", name}, "The suspension of " + name + " is over.", err
}

// evict ends the reservations of a cluster that the user saw, and no others.
func (u *UI) evict(ctx context.Context, r *http.Request) ([]string, string, error) {
	name, digest := r.PathValue("cluster"), r.PostForm.Get("digest")
	switch {
	case r.PostForm.Get("name") != name:
		return nil, "", api.Invalid("name", "%.63q is not the name of the cluster", r.PostForm.Get("name")).
			Fix("type %s to end what it has here", name)
	case digest == "":
		return nil, "", api.Errorf(api.CodeConflict, "the page showed no reservation of %s", name).Fix("look at it again")
	}
	_, err := u.o.Acts.Evict(ctx, api.Audit{Cluster: name, Digest: digest})
	return []string{"clusters", name}, "The reservations of " + name + " here end. Its pods have some time to move.", err
}
