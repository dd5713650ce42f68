package peeraddress

import (
	"context"
	"maps"
	"net/netip"
	"os"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// readEvery is how often the cluster's own ranges are read, and retryEvery how soon again after a failure
// when none are known.
const readEvery, retryEvery = time.Hour, time.Minute

// Run reads the cluster's own ranges now and then, until ctx ends.
func (c *Checker) Run(ctx context.Context) error {
	for {
		wait := readEvery
		if c.own.Load() == nil {
			wait = retryEvery
		}
		select {
		case <-ctx.Done():
			return nil
		case <-c.Clock.After(wait):
		}
		c.ReadRanges(ctx)
	}
}

// ReadRanges reads the ranges of the cluster's own pods and services. Where its nodes cannot be read, the
// Checker keeps the ranges that it knows.
func (c *Checker) ReadRanges(ctx context.Context) {
	own := map[netip.Prefix]bool{}
	add := func(ranges []string) {
		for _, text := range ranges {
			if p, err := netip.ParsePrefix(text); err == nil {
				own[p.Masked()] = true
			}
		}
	}
	for page := (metav1.ListOptions{Limit: 500}); ; {
		nodes, err := c.Kubernetes.CoreV1().Nodes().List(ctx, page)
		if err != nil {
			c.Log.Warn("the ranges of the cluster's pods cannot be read: peers could name addresses in them",
				"error", err, "again in", retryEvery)
			return
		}
		for i := range nodes.Items {
			add(nodes.Items[i].Spec.PodCIDRs)
		}
		if page.Continue = nodes.Continue; page.Continue == "" {
			break
		}
	}
	services, err := c.Kubernetes.NetworkingV1().ServiceCIDRs().List(ctx, metav1.ListOptions{})
	if err == nil {
		for i := range services.Items {
			add(services.Items[i].Spec.CIDRs)
		}
	} else if p, ok := aroundAPIServer(os.Getenv("KUBERNETES_SERVICE_HOST")); ok { // before Kubernetes 1.33 nobody says
		own[p] = true
	}
	all := slices.Collect(maps.Keys(own))
	c.own.Store(&all)
}

// aroundAPIServer guesses the range of a cluster's services from the address of the first one, the API
// server's.
func aroundAPIServer(host string) (netip.Prefix, bool) {
	a, err := netip.ParseAddr(host)
	bits := 108 // the largest that Kubernetes takes
	if err == nil && a.Is4() {
		bits = 16
		if a == netip.MustParseAddr("10.96.0.1") { // kubeadm's default
			bits = 12
		}
	}
	p, wrong := a.Prefix(bits)
	return p, err == nil && wrong == nil
}
