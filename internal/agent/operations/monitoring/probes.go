package monitoring

import (
	"errors"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/server"
)

// Listen serves /livez and /readyz at one address and /metrics at another, in each replica, as long as the
// manager runs. It has the bounds of our other listeners. Empty or "0": it does not listen. An agent is
// ready without its broker. A replica that leads is ready once began is closed: then the list of consumers is
// there, and the agent is recorded. Errors: Invalid with the flag.
func Listen(mgr manager.Manager, healthAddress, metricsAddress string, began <-chan struct{}) error {
	caches := func(r *http.Request) error {
		if !mgr.GetCache().WaitForCacheSync(r.Context()) {
			return errors.New("caches are not in sync")
		}
		return nil
	}
	leads := func(*http.Request) error {
		select {
		case <-mgr.Elected():
		default: // it stands by
			return nil
		}
		select {
		case <-began:
			return nil
		default:
			return errors.New("the list of consumers or the record of the agent is not there yet")
		}
	}
	health := http.NewServeMux()
	for path, checks := range map[string]map[string]healthz.Checker{"/livez": {"ping": healthz.Ping},
		"/readyz": {"caches": caches, "list": leads}} {
		handler := http.StripPrefix(path, &healthz.Handler{Checks: checks})
		health.Handle(path, handler)
		health.Handle(path+"/", handler)
	}
	metrics := http.NewServeMux()
	metrics.Handle("/metrics", promhttp.HandlerFor(ctrlmetrics.Registry,
		promhttp.HandlerOpts{ErrorHandling: promhttp.HTTPErrorOnError}))
	return errors.Join(
		listen(mgr, "--health-probe-bind-address", healthAddress, health),
		listen(mgr, "--metrics-bind-address", metricsAddress, metrics),
	)
}

// shutdownGrace is how long calls are waited for at the end.
var shutdownGrace = time.Second

func listen(mgr manager.Manager, flag, address string, h http.Handler) error {
	if address == "" || address == "0" {
		return nil
	}
	l, err := net.Listen("tcp", address)
	if err != nil {
		return api.Invalid(flag, "%s", err).Fix("give a free address of this machine: HOST:PORT")
	}
	bounded, s := server.Bounded(l, h)
	// The manager starts servers before all else.
	return mgr.Add(&manager.Server{Name: flag, Server: s, Listener: bounded, ShutdownTimeout: &shutdownGrace})
}
