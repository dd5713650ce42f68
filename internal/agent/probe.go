package agent

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

// probe serves /livez, /readyz and /metrics, within the bounds of our other listeners. An agent is ready without its broker: what it holds
// stays held. Errors: Invalid with the flag.
func (a *agent) probe() error {
	caches := func(r *http.Request) error {
		if !a.mgr.GetCache().WaitForCacheSync(r.Context()) {
			return errors.New("caches are not in sync")
		}
		return nil
	}
	health := http.NewServeMux()
	for path, checks := range map[string]map[string]healthz.Checker{"/livez": {"ping": healthz.Ping}, "/readyz": {"caches": caches}} {
		handler := http.StripPrefix(path, &healthz.Handler{Checks: checks})
		health.Handle(path, handler)
		health.Handle(path+"/", handler)
	}
	metrics := http.NewServeMux()
	metrics.Handle("/metrics", promhttp.HandlerFor(ctrlmetrics.Registry, promhttp.HandlerOpts{ErrorHandling: promhttp.HTTPErrorOnError}))
	return errors.Join(
		a.observe("--health-probe-bind-address", a.HealthAddress, health),
		a.observe("--metrics-bind-address", a.MetricsAddress, metrics),
	)
}

// probeGrace is how long those who probe are waited for at the end.
var probeGrace = time.Second

// observe serves at an address, if there is one, in each replica.
func (a *agent) observe(flag, address string, h http.Handler) error {
	if address == "" || address == "0" {
		return nil
	}
	l, err := net.Listen("tcp", address)
	if err != nil {
		return api.Invalid(flag, "%s", err).Fix("give a free address of this machine: HOST:PORT")
	}
	bounded, s := server.Bounded(l, h)
	return a.mgr.Add(&manager.Server{Name: flag, Server: s, Listener: bounded, ShutdownTimeout: &probeGrace}) // which is served before anything else is there
}
