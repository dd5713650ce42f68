package broker

import (
	"context"
	"encoding/json"
	"errors"
	"net"
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
	waiting, leads := make(chan struct{}), make(chan struct{})
	group, waits := errgroup.WithContext(ctx)
	group.Go(func() (err error) {
		defer close(leads)
		hold, err = journal.Lead(waits, func() { close(waiting) })
		return err
	})
	group.Go(func() error {
		select {
		case <-leads:
			return nil
		case <-waiting:
		}
		answering, stop := context.WithCancel(waits)
		defer stop()
		go func() {
			<-leads
			stop()
		}()
		return answerStandby(answering, o)
	})
	err = group.Wait()
	return hold, err
}

// answerStandby serves at the addresses of a broker until ctx ends.
func answerStandby(ctx context.Context, o Options) error {
	listener, err := listen(o)
	if err != nil {
		return err
	}
	defer listener.Close()
	if err := demandCA(o); err != nil {
		return err
	}
	authority, _, err := identify(o, listener.Addr())
	if err != nil {
		return err
	}
	socket, err := server.ListenSocket(o.Socket)
	if err != nil {
		return err
	}
	var listeners errgroup.Group
	listeners.Go(func() error {
		return server.ServeTLS(ctx, listener, authority.ServerConfig(), http.HandlerFunc(refuseStandby), server.Bounds{})
	})
	listeners.Go(func() error { return server.Serve(ctx, socket, http.HandlerFunc(refuseStandby)) })
	probes, err := listenProbes(o)
	if err != nil {
		return errors.Join(err, socket.Close(), listener.Close(), listeners.Wait())
	}
	if probes != nil {
		mux := http.NewServeMux()
		mux.HandleFunc("/livez", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("standby\n")) })
		mux.HandleFunc("/readyz", func(w http.ResponseWriter, _ *http.Request) {
			http.Error(w, "standby: another broker leads", http.StatusServiceUnavailable)
		})
		listeners.Go(func() error { return server.Serve(ctx, probes, mux) })
	}
	o.Log.Info("broker stands by: another one leads", "listen", listener.Addr().String(), "socket", o.Socket)
	return listeners.Wait()
}

// refuseStandby answers every call: the caller should try again, here or at the leading broker.
func refuseStandby(w http.ResponseWriter, _ *http.Request) {
	refused := api.Errorf(api.CodeUnavailable, "this broker stands by: another one leads").
		Fix("call the one that leads, or repeat the call when this one does")
	w.Header().Set("Content-Type", "application/problem+json")
	w.Header().Set("Retry-After", "1")
	w.Header().Set("Connection", "close") // so that the next call may reach the leading broker
	w.WriteHeader(refused.Status)
	_ = json.NewEncoder(w).Encode(refused)
}

func listen(o Options) (net.Listener, error) {
	l, err := net.Listen("tcp", o.Listen)
	if err != nil {
		return nil, api.Invalid("--listen", "%s", err).Fix("give a free address of this machine: HOST:PORT")
	}
	return l, nil
}

// listenProbes opens the address of metrics and probes, if there is one.
func listenProbes(o Options) (net.Listener, error) {
	if o.MetricsAddress == "" {
		return nil, nil
	}
	l, err := net.Listen("tcp", o.MetricsAddress)
	if err != nil {
		return nil, api.Invalid("--metrics-bind-address", "%s", err).Fix("give a free address of this machine: HOST:PORT")
	}
	return l, nil
}
