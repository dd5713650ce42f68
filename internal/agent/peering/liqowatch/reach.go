package liqowatch

import (
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
	// A dial that fails is repeated after dialPause, within dialWithin: a server that restarts, or a connection
	// that is lost, makes no provider unreachable. TCP itself repeats a packet that is lost.
	dialWithin, dialPause = 10 * time.Second, 300 * time.Millisecond
	// dialsAtOnce is how many addresses a provider may name at once, and then one each dialLasts.
	dialsAtOnce = 10
	// maxDials and maxLimits bound what is remembered.
	maxDials, maxLimits = 1000, 10_000
)

// dial is the result of one.
type dial struct {
	took time.Duration
	err  error
}

// CheckReach returns why this cluster cannot use what a provider lends. It checks that the two clusters can
// have the network that the request asks for, if any. Then it dials the provider's API server, because Liqo
// here must reach it before a reservation there is of use. A card that names no API server passes. CheckReach
// does not check that the server is the provider's: Liqo's Identity ensures that.
// Errors: ApiServerUnreachable, NoNetwork.
func (w *Watch) CheckReach(ctx context.Context, provider *api.Card, r api.Request) error {
	_, err := w.reach(ctx, provider, r)
	return err
}

// Latency is how long this cluster takes to open a TLS connection to the API server of a provider.
// Zero: its card names none, or one that is reached through a network only.
// Errors: ApiServerUnreachable.
func (w *Watch) Latency(ctx context.Context, provider *api.Card) (time.Duration, error) {
	return w.reach(ctx, provider, api.Request{Network: provider.Properties.Network})
}

// reach does what CheckReach says, and returns what Latency does. Many calls for one provider are
// one dial, and count as one. A caller that gives up does not end it.
func (w *Watch) reach(ctx context.Context, provider *api.Card,
	r api.Request) (took time.Duration, err error) {
	if err := checkNetwork(w.options.Gateway, r, provider); err != nil {
		return 0, err
	}
	server := provider.Properties.APIServer
	// it cannot be dialled before the network is up
	if server == "" || provider.Properties.APIServerAccess == api.APIServerNetwork {
		return 0, nil
	}
	answer := w.dialling.DoChan(provider.Cluster+" "+server, func() (any, error) {
		return w.dial(context.WithoutCancel(ctx), provider.Cluster, server)
	})
	select {
	case dialled := <-answer:
		return dialled.Val.(time.Duration), dialled.Err
	case <-ctx.Done():
		return 0, ctx.Err()
	}
}

// dial opens a connection to an address that a provider names, unless the last result of the
// address holds.
func (w *Watch) dial(ctx context.Context, provider, server string) (took time.Duration, err error) {
	if last, holds := w.dials.Get(server); holds {
		return last.(dial).took, last.(dial).err
	}
	if !w.mayDial(provider) {
		return 0, api.Errorf(api.CodeUnreachable,
			"the card of %s has named %d other addresses of its API server lately", provider, dialsAtOnce).
			Fix("try again in some minutes, or ask its admin")
	}
	took, err = w.dialTwice(ctx, server)
	if refused, ok := errors.AsType[*api.Error](err); ok {
		err = refused
	} else if err != nil {
		// The error does not say why: the card's author reads it, and could scan this network.
		w.options.Log.Info("the API server of a provider does not answer", "provider", provider,
			"address", server, "error", err)
		err = api.Errorf(api.CodeUnreachable, "the API server of %s does not answer by TLS at %.200q from here",
			provider, server).
			Fix("ask its admin to make it reachable, or to tell Liqo its address (apiServer.address); the agent's log says more")
	}
	w.dials.Add(server, dial{took, err}, dialLasts)
	return took, err
}

// dialTwice opens a connection, and tries once more if that fails. It does not repeat a dial that the address
// checker refuses.
func (w *Watch) dialTwice(ctx context.Context, server string) (took time.Duration, err error) {
	ctx, cancel := context.WithTimeout(ctx, dialWithin)
	defer cancel()
	for try := 1; ; try++ {
		began := w.options.Clock.Now()
		err = w.options.Addresses.DialTLS(ctx, server)
		took = w.options.Clock.Since(began)
		if _, refused := errors.AsType[*api.Error](err); err == nil || refused || try == 2 {
			return took, err
		}
		select {
		case <-w.options.Clock.After(dialPause):
		case <-ctx.Done():
			return took, err
		}
	}
}

// mayDial reports whether a provider may name one more address.
func (w *Watch) mayDial(provider string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	limiter := rate.NewLimiter(rate.Every(dialLasts), dialsAtOnce)
	if known, ok := w.limits.Get(provider); ok {
		limiter = known.(*rate.Limiter)
	}
	w.limits.Add(provider, limiter, dialsAtOnce*dialLasts) // then it is as a new one
	return limiter.AllowN(w.options.Clock.Now(), 1)
}

// checkNetwork returns why this cluster and a provider cannot have the network that a request asks for.
// Errors: NoNetwork.
func checkNetwork(own network.Gateway, r api.Request, provider *api.Card) error {
	properties := provider.Properties
	switch {
	case r.Network != api.NetworkWireGuard && properties.APIServerAccess == api.APIServerNetwork:
		return api.Errorf(api.CodeNoNetwork, "the API server of %s is reached through a network only", provider.Cluster).
			Fix("ask for one: --network wireguard")
	case r.Network != api.NetworkWireGuard:
		return nil
	case properties.Network != api.NetworkWireGuard:
		return api.Errorf(api.CodeNoNetwork, "cluster %s has no network with consumers", provider.Cluster).
			Fix("ask its admin to allow it (SharingPolicy network), or leave out --network")
	case !properties.Gateway && !own.Serves():
		return api.Errorf(api.CodeNoNetwork, "neither the gateway of %s nor that of this cluster can be reached by the other",
			provider.Cluster).
			Fix("make one of them reachable (--network-gateway of its agent)")
	}
	return nil
}
