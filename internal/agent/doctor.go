package agent

import (
	"context"

	"golang.org/x/sync/errgroup"
	"k8s.io/utils/clock"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/agent/brokers"
	"github.com/bourse-dev/bourse/internal/agent/brokersession"
	"github.com/bourse-dev/bourse/internal/agent/catalogcache"
	"github.com/bourse-dev/bourse/internal/agent/doctor"
	"github.com/bourse-dev/bourse/internal/agent/enrollment"
	"github.com/bourse-dev/bourse/internal/agent/liqowatch"
	"github.com/bourse-dev/bourse/internal/agent/monitoring"
	"github.com/bourse-dev/bourse/internal/agent/sharing"
	"github.com/bourse-dev/bourse/internal/exchange"
	"github.com/bourse-dev/bourse/internal/liqo"
	"github.com/bourse-dev/bourse/internal/liqo/posture"
)

// newDoctor returns the doctor with its list of checks.
func (a *agent) newDoctor(m *enrollment.Membership, ledgers map[string]*exchange.Exchange, relay brokersession.Relay, open *brokersession.Sessions, all *brokers.Brokers,
	catalog *catalogcache.Cache, policy *sharing.Policy, here *liqowatch.Watch, show func(context.Context, []api.Problem) error,
) *doctor.Doctor {
	c, reader, now, ledger := a.mgr.GetClient(), a.mgr.GetAPIReader(), clock.RealClock{}, ledgers[ledgerName]
	o := doctor.Options{Show: show, Clock: now, Checks: []doctor.Check{
		{About: "the main broker", Find: doctor.MainBroker{Cluster: m.Cluster, Membership: m, Brokers: all, Clock: now}.Find},
		{About: "the other brokers", Find: doctor.OtherBrokers{Brokers: all, Clock: now}.Find},
		{About: "what works without a broker", Find: doctor.Offline{
			Cluster: m.Cluster, Ledger: ledger, Sessions: open, Sharing: policy.Sharing, Copy: catalog, Connector: a.ConnectorURL, Clock: now,
		}.Find},
		{About: "what this cluster shares", Find: doctor.Sharing{Cluster: m.Cluster, Ledger: ledger, Policy: policy.Sharing}.Find},
		{About: "peers", Find: doctor.Peers{Client: c, Namespace: a.Namespace}.Find},
	}}
	for name, x := range ledgers {
		o.Checks = append(o.Checks, doctor.Check{About: "ledger " + name, Find: doctor.Ledger{Name: name, Market: x}.Find})
	}
	if !a.WithoutLiqo {
		o.Checks = append(o.Checks, doctor.Check{About: "Liqo", Find: doctor.Liqo{Sharing: policy.Sharing, Inspection: posture.Inspection{
			Reader: reader, Lists: c, Writer: c, Prove: true, Namespace: a.Namespace, LiqoNamespace: a.LiqoNamespace,
			AllowUntested: a.AllowUntestedLiqo, APIServer: a.APIServer,
			Installed: func() (bool, error) { return liqo.Installed(a.mgr.GetRESTMapper()) },
		}}.Find})
	}
	if here != nil {
		peerings := doctor.Peerings{Client: c, Reader: reader, Namespace: a.Namespace, Broker: relay, Liqo: here, Clock: now}
		access := doctor.Access{Reader: reader, LiqoNamespace: a.LiqoNamespace, Joins: a.gateway.Joins(), Sharing: policy.Sharing}
		o.Liqo = reader
		o.Checks = append(o.Checks,
			doctor.Check{About: "what is borrowed", Find: doctor.Borrowed{Client: c}.Find},
			doctor.Check{About: "peerings", Find: peerings.Find},
			doctor.Check{About: "names that collide", Find: peerings.FindCollisions},
			doctor.Check{About: "the certificates of peerings", Find: peerings.FindCertificates},
			doctor.Check{About: "the way to the API server", Find: access.Find},
		)
	}
	return doctor.New(o)
}

// showMetrics shows the agent's metrics until ctx ends, if it serves any.
func (a *agent) showMetrics(ctx context.Context, group *errgroup.Group, o monitoring.Options) error {
	if a.MetricsAddress == "" {
		return nil
	}
	unregister, err := monitoring.Register(o)
	if err != nil {
		return err
	}
	group.Go(func() error {
		<-ctx.Done()
		unregister()
		return nil
	})
	return nil
}
