package liqowatch

import (
	"cmp"
	"context"
	"errors"
	"time"

	"golang.org/x/time/rate"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/liqo/network"
)

const (
	// dialLasts is how long the result of a dial holds.
	dialLasts = time.Minute
	// dialsAtOnce is how many addresses a provider may name at once, and then one each dialLasts.
	dialsAtOnce = 10
	// maxDials and maxLimits bound what is remembered.
	maxDials, maxLimits = 1000, 10_000
)

// dial is the result of one.
type dial struct {
	at   time.Time
	took time.Duration
	err  error
}

// CheckReach returns why this cluster cannot use what a provider lends. It checks that the two clusters can
// have the network that the request asks for, if any. Then it dials the provider's API server, because Liqo
// here must reach it before a reservation there is of use. A card that names no API server passes. CheckReach
// does not check that the server is the provider's: Liqo's Identity ensures that.
// Errors: ApiServerUnreachable, NoNetwork.
func (w *Watch) CheckReach(ctx context.Context, provider *api.Card, r api.Request) error {
	if err := checkNetwork(w.options.Gateway, r, provider); err != nil {
		return err
	}
	server := provider.Properties.APIServer
	// it cannot be dialled before the network is up
	if server == "" || provider.Properties.APIServerAccess == api.APIServerNetwork {
		return nil
	}
	last, end, err := w.beginDial(ctx, server)
	if end == nil {
		return cmp.Or(err, last.err)
	}
	defer end()
	if !w.mayDial(provider.Cluster) {
		return api.Errorf(api.CodeUnreachable,
			"the card of %s has named %d other addresses of its API server lately", provider.Cluster, dialsAtOnce).
			Fix("try again in some minutes, or ask its admin")
	}
	began := w.options.Clock.Now()
	cause := w.options.Addresses.DialTLS(ctx, server)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	err = cause
	if refused, ok := errors.AsType[*api.Error](cause); ok {
		err = refused
	} else if cause != nil { // the error does not say why: the card's author reads it, and could scan this network
		w.options.Log.Info("the API server of a provider does not answer", "provider", provider.Cluster,
			"address", server, "error", cause)
		err = api.Errorf(api.CodeUnreachable, "the API server of %s does not answer by TLS at %.200q from here",
			provider.Cluster, server).
			Fix("ask its admin to make it reachable, or to tell Liqo its address (apiServer.address); the agent's log says more")
	}
	w.mu.Lock()
	defer w.mu.Unlock() // before end
	if len(w.dials) > maxDials {
		clear(w.dials)
	}
	w.dials[server] = dial{w.options.Clock.Now(), w.options.Clock.Since(began), err}
	return err
}

// beginDial returns the last result of an address, while that holds. It waits while another call dials the
// address: many reservations at one provider are one dial, and count as one. Otherwise the caller dials, and
// calls end afterwards. Errors: ctx's.
func (w *Watch) beginDial(ctx context.Context, server string) (last dial, end func(), err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for {
		if last, ok := w.dials[server]; ok && w.options.Clock.Since(last.at) < dialLasts {
			return last, nil, nil
		}
		other := w.dialling[server]
		if other == nil {
			break
		}
		w.mu.Unlock()
		select {
		case <-other:
		case <-ctx.Done():
			err = ctx.Err()
		}
		if w.mu.Lock(); err != nil {
			return last, nil, err
		}
	}
	own := make(chan struct{})
	w.dialling[server] = own
	return last, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		delete(w.dialling, server)
		close(own)
	}, nil
}

// Latency is how long this cluster takes to open a TLS connection to the API server of a provider. Zero: its
// card names none, or one that is reached through a network only. Errors: ApiServerUnreachable.
func (w *Watch) Latency(ctx context.Context, provider *api.Card) (time.Duration, error) {
	if err := w.CheckReach(ctx, provider, api.Request{Network: provider.Properties.Network}); err != nil {
		return 0, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.dials[provider.Properties.APIServer].took, nil
}

// mayDial reports whether a provider may name one more address.
func (w *Watch) mayDial(provider string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	limiter := w.limits[provider]
	if limiter == nil {
		if len(w.limits) > maxLimits {
			clear(w.limits)
		}
		limiter = rate.NewLimiter(rate.Every(dialLasts), dialsAtOnce)
		w.limits[provider] = limiter
	}
	return limiter.AllowN(w.options.Clock.Now(), 1)
}

// checkNetwork returns why this cluster and a provider cannot have the network that a request asks for.
// Errors: NoNetwork.
func checkNetwork(own network.Gateway, r api.Request, provider *api.Card) error {
	theirs := provider.Properties
	switch {
	case r.Network != api.NetworkWireGuard && theirs.APIServerAccess == api.APIServerNetwork:
		return api.Errorf(api.CodeNoNetwork, "the API server of %s is reached through a network only",
			provider.Cluster).Fix("ask for one: --network wireguard")
	case r.Network != api.NetworkWireGuard:
		return nil
	case theirs.Network != api.NetworkWireGuard:
		return api.Errorf(api.CodeNoNetwork, "cluster %s has no network with consumers", provider.Cluster).
			Fix("ask its admin to allow it (SharingPolicy network), or ask without")
	case !theirs.Gateway && !own.Serves():
		return api.Errorf(api.CodeNoNetwork, "neither the gateway of %s nor that of this cluster can be reached by the other",
			provider.Cluster).
			Fix("make one of them reachable (--network-gateway of its agent)")
	}
	return nil
}
