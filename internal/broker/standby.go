package broker

import (
	"cmp"
	"context"
	"net/http"

	"golang.org/x/sync/errgroup"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/server"
)

// contested is a journal that several brokers may use: one leads, the others stand by.
type contested interface {
	// Lead waits until this process leads. waiting is called once if it has to wait. hold returns an error
	// when the lead is lost, nil when its ctx ends.
	Lead(ctx context.Context, waiting func()) (hold func(context.Context) error, err error)
}

// standBy runs a broker that leads once no other broker does. It ends when it no longer leads, because
// its view of the market is then outdated.
func standBy(ctx context.Context, o Options, journal contested) error {
	hold, err := waitToLead(ctx, o, journal)
	if ctx.Err() != nil {
		return nil // asked to stop before it led
	}
	if err != nil {
		return err
	}
	group, held := errgroup.WithContext(ctx)
	leads, end := context.WithCancel(held)
	group.Go(func() error { return hold(leads) })
	group.Go(func() error {
		defer end()
		return lead(leads, o)
	})
	return group.Wait()
}

// waitToLead answers all calls with an error while another broker leads.
func waitToLead(ctx context.Context, o Options, journal contested) (hold func(context.Context) error, err error) {
	group, waits := errgroup.WithContext(ctx)
	standsBy, leads := context.WithCancel(waits)
	hold, err = journal.Lead(waits, func() {
		group.Go(func() error { return answerStandby(standsBy, o) })
	})
	leads()
	return hold, cmp.Or(group.Wait(), err)
}

// answerStandby serves at the addresses of a broker until ctx ends.
func answerStandby(ctx context.Context, o Options) error {
	listeners, err := openListeners(o)
	if err != nil {
		return err
	}
	defer listeners.close()
	if err := demandCA(o); err != nil {
		return err
	}
	authority, _, err := identify(o, listeners.members.Addr())
	if err != nil {
		return err
	}
	var serving errgroup.Group
	refuse := http.HandlerFunc(refuseStandby)
	serving.Go(func() error {
		return server.ServeTLS(ctx, listeners.members, authority.ServerConfig(), refuse, server.Bounds{})
	})
	serving.Go(func() error { return server.Serve(ctx, listeners.operators, refuse) })
	if listeners.probes != nil {
		mux := http.NewServeMux()
		mux.HandleFunc("/livez", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("standby\n")) })
		mux.HandleFunc("/readyz", func(w http.ResponseWriter, _ *http.Request) {
			http.Error(w, "standby: another broker leads", http.StatusServiceUnavailable)
		})
		serving.Go(func() error { return server.Serve(ctx, listeners.probes, mux) })
	}
	o.Log.Info("broker stands by: another one leads",
		"listen", listeners.members.Addr().String(), "socket", o.Socket)
	return serving.Wait()
}

// refuseStandby answers every call: the caller should try again, here or at the leading broker.
func refuseStandby(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Retry-After", "1")
	w.Header().Set("Connection", "close") // so that the next call may reach the leading broker
	server.Refuse(w, r, api.Errorf(api.CodeUnavailable, "this broker stands by: another one leads").
		Fix("call the one that leads, or repeat the call when this one does"))
}
