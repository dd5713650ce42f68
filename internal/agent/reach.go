package agent

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"golang.org/x/time/rate"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/agent/peeraddress"
	"github.com/bourse-dev/bourse/internal/liqo"
	"github.com/bourse-dev/bourse/internal/liqo/network"
	"github.com/bourse-dev/bourse/internal/liqo/peering"
)

// installed follows what this cluster's Liqo is told, and whether those of others can be used from here.
type installed struct {
	reader    client.Reader
	namespace string
	apiServer string // what the admin says instead
	gateway   network.Gateway
	addresses *peeraddress.Checker
	log       *slog.Logger

	mu    sync.Mutex
	fits  bool // it was seen once: a key stays
	known liqo.Installation
	dials map[string]dial          // by address
	often map[string]*rate.Limiter // by provider: how often it may name another address
}

type dial struct {
	at  time.Time
	err error
}

const (
	lookAgain = time.Minute // how often Liqo's own configuration is read
	dialAgain = time.Minute // how long it is believed that an API server can be reached, or not
	// dialsAtOnce is how many addresses a provider may name at once, and then one each dialAgain.
	dialsAtOnce = 10
)

// read reads the installation, and says whether it changed.
func (i *installed) read(ctx context.Context) (changed bool, err error) {
	next, err := liqo.ReadInstallation(ctx, i.reader, i.namespace)
	if err != nil {
		return false, err
	}
	if i.apiServer != "" {
		next.APIServer = i.apiServer
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	changed = next != i.known
	i.known = next
	return changed, nil
}

// follow reads it now and then, and tells of a change.
func (i *installed) follow(ctx context.Context, tell func()) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(lookAgain):
		}
		changed, err := i.read(ctx)
		if err != nil {
			i.log.Warn("Liqo's installation cannot be read", "error", err)
		}
		if changed {
			tell()
		}
	}
}

func (i *installed) get() liqo.Installation {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.known
}

// fit says why this cluster's Liqo cannot borrow, whoever lends: its key is of a kind that no provider takes. A key that is not there
// yet is not held against it. Errors: Unavailable.
func (i *installed) fit(ctx context.Context) error {
	i.mu.Lock()
	fits := i.fits
	i.mu.Unlock()
	if fits {
		return nil
	}
	_, _, err := peering.Keys(ctx, i.reader, i.namespace)
	if err != nil {
		return client.IgnoreNotFound(err)
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	i.fits = true
	return nil
}

// card puts into a cluster's card what Liqo is there, none where it lacks a module; sharing is nil where nothing is shared.
func (i *installed) card(p *api.Properties, sharing *api.Sharing) {
	known := i.get()
	p.APIServer, p.Gateway = known.APIServer, i.gateway.Serves()
	if known.Off == "" {
		p.Liqo = known.Version
	}
	if sharing != nil && sharing.Network == api.NetworkWireGuard && i.gateway.Joins() {
		p.Network = api.NetworkWireGuard
	}
	if sharing != nil && sharing.APIServerAccess == api.APIServerNetwork {
		p.APIServerAccess = api.APIServerNetwork
	}
}

// reach says whether what a provider lends can be used from here: with the network that is asked for, if any, and by its API
// server, which it dials: Liqo here must reach it before anything that is reserved there is of use. That
// it is the right one, Liqo's Identity ensures. A card that names none is not held against it.
// Errors: ApiServerUnreachable, NoNetwork.
func (i *installed) reach(ctx context.Context, provider *api.Card, r api.Request) error {
	if err := agreeNetwork(i.gateway, r, provider); err != nil {
		return err
	}
	server := provider.Properties.APIServer
	if server == "" || provider.Properties.APIServerAccess == api.APIServerNetwork { // there is nothing to dial before the network is there
		return nil
	}
	i.mu.Lock()
	last, ok := i.dials[server]
	i.mu.Unlock()
	if ok && time.Since(last.at) < dialAgain {
		return last.err
	}
	if !i.mayDial(provider.Cluster) {
		return api.Errorf(api.CodeUnreachable, "the card of %s has named %d other addresses of its API server lately", provider.Cluster, dialsAtOnce).
			Fix("try again in some minutes, or ask its admin")
	}
	cause := i.addresses.DialTLS(ctx, server)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	err := cause
	if refused, ok := errors.AsType[*api.Error](cause); ok {
		err = refused
	} else if cause != nil { // why, it does not say: whoever wrote the card reads it, and could look around in this network
		i.log.Info("the API server of a provider does not answer", "provider", provider.Cluster, "address", server, "error", cause)
		err = api.Errorf(api.CodeUnreachable, "the API server of %s does not answer by TLS at %.200q from here", provider.Cluster, server).
			Fix("ask its admin to make it reachable, or to tell Liqo its address (apiServer.address); the agent's log says more")
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	if len(i.dials) > 1000 {
		clear(i.dials)
	}
	i.dials[server] = dial{time.Now(), err}
	return err
}

// mayDial says no to a provider whose card names one address after another.
func (i *installed) mayDial(provider string) bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	limiter := i.often[provider]
	if limiter == nil {
		if i.often == nil || len(i.often) > 10_000 {
			i.often = map[string]*rate.Limiter{}
		}
		limiter = rate.NewLimiter(rate.Every(dialAgain), dialsAtOnce)
		i.often[provider] = limiter
	}
	return limiter.Allow()
}
