package agent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/agent/brokers"
	"github.com/bourse-dev/bourse/internal/agent/brokersession"
	"github.com/bourse-dev/bourse/internal/agent/catalogcache"
	"github.com/bourse-dev/bourse/internal/agent/enrollment"
	"github.com/bourse-dev/bourse/internal/agent/liqowatch"
	"github.com/bourse-dev/bourse/internal/agent/peeraddress"
	"github.com/bourse-dev/bourse/internal/agent/scheme"
	"github.com/bourse-dev/bourse/internal/agent/sharing"
	"github.com/bourse-dev/bourse/internal/exchange"
	"github.com/bourse-dev/bourse/internal/health"
	"github.com/bourse-dev/bourse/internal/identity/tlsid"
	"github.com/bourse-dev/bourse/internal/journal"
	"github.com/bourse-dev/bourse/internal/kubeobject"
	"github.com/bourse-dev/bourse/internal/liqo"
	"github.com/bourse-dev/bourse/internal/liqo/network"
	"github.com/bourse-dev/bourse/internal/liqo/peering"
	"github.com/bourse-dev/bourse/internal/liqo/posture"
	"github.com/bourse-dev/bourse/internal/market"
	"github.com/bourse-dev/bourse/internal/transport"
)

// doctor finds what is wrong with this cluster, when it is asked and now and then.
type doctor struct {
	client.Client
	cluster    string
	namespace  string
	market     *exchange.Exchange
	ledgers    map[string]*exchange.Exchange // market's and the connector's, by name
	member     *enrollment.Membership
	main       *brokersession.Connection // to the main broker
	broker     transport.Broker
	sessions   *brokersession.Sessions
	brokers    *brokers.Brokers
	catalogs   *catalogcache.Cache
	connector  string // where others reach this cluster's; empty: it has none
	sharing    *sharing.Policy
	here       *liqowatch.Watch // nil without a Liqo that can be used
	gateway    network.Gateway
	reader     client.Reader       // from the API server
	liqo       string              // Liqo's namespace
	inspection *posture.Inspection // nil where the admin says that Liqo is not wanted

	mu   sync.Mutex
	last []api.Problem
}

// rounds is how often the doctor looks unasked, retold how soon it tries again to tell of it: at first there is nothing to show it on.
const (
	rounds = 10 * time.Minute
	retold = 5 * time.Second
)

// stuck is how long a peering may take, skewed by how much two clocks may differ.
const (
	stuck  = 2 * time.Minute
	skewed = 15 * time.Second
)

// newDoctor makes the doctor of this cluster.
func (a *agent) newDoctor(cluster string, m *enrollment.Membership, ledgers map[string]*exchange.Exchange, b transport.Broker, main *brokersession.Session, open *brokersession.Sessions, more *brokers.Brokers, catalog *catalogcache.Cache, policy *sharing.Policy, here *liqowatch.Watch) *doctor {
	c := a.mgr.GetClient()
	d := &doctor{Client: c, cluster: cluster, namespace: a.Namespace, market: ledgers[ledgerName], ledgers: ledgers, member: m, main: main.Connection(), broker: b, sessions: open, brokers: more, catalogs: catalog, connector: a.ConnectorURL, sharing: policy, here: here,
		gateway: a.gateway, reader: a.mgr.GetAPIReader(), liqo: a.LiqoNamespace,
	}
	if !a.WithoutLiqo {
		d.inspection = &posture.Inspection{
			Reader: a.mgr.GetAPIReader(), Lists: c, Writer: c, Prove: true, Namespace: a.Namespace, LiqoNamespace: a.LiqoNamespace,
			AllowUntested: a.AllowUntestedLiqo, APIServer: a.APIServer,
			Installed: func() (bool, error) { return liqo.Installed(a.mgr.GetRESTMapper()) },
		}
	}
	a.doctor.Store(d)
	return d
}

// run makes the rounds, and tells of each; where that fails, the next comes soon.
func (d *doctor) run(ctx context.Context, tell func(context.Context, []api.Problem) error) error {
	for {
		wait := rounds
		if err := tell(ctx, d.Diagnose(ctx)); err != nil {
			wait = retold
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(wait):
		}
	}
}

// known is what was found last.
func (d *doctor) known() []api.Problem {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.last
}

// Audit returns what Liqo and Kubernetes let another cluster do here. Errors: NotFound.
func (d *doctor) Audit(ctx context.Context, cluster string) (*api.Audit, error) {
	if d.here == nil {
		return &api.Audit{Cluster: cluster}, nil
	}
	audit, err := posture.Audit(ctx, d.inspection.Reader, cluster)
	return audit, kubeobject.Error(err)
}

// Diagnose looks at everything, worst first.
func (d *doctor) Diagnose(ctx context.Context) []api.Problem {
	lends := d.sharing.Sharing() != nil
	all := append(d.ofBroker(), d.ofSharing(lends)...)
	for name, x := range d.ledgers {
		all = append(all, ofLedger(ctx, name, x)...)
	}
	if d.inspection != nil {
		inspection := *d.inspection
		inspection.Lends = lends
		all = append(all, inspection.Problems(ctx)...)
	}
	if d.behindNetwork() {
		all = slices.DeleteFunc(all, func(p api.Problem) bool { return p.Code == health.APIServerLocal.Code }) // nobody dials it
	}
	for what, look := range map[string]func(context.Context) ([]api.Problem, error){"the other brokers": d.ofOthers, "what works without a broker": d.meanwhile, "peers": d.ofPeers, "peerings": d.ofPeerings, "names that collide": d.ofNames, "the certificates of peerings": d.ofCertificates, "the way to the API server": d.ofAccess} {
		found, err := look(ctx)
		if err != nil {
			found = append(found, health.NotChecked.Of(what, "", "%s", err))
		}
		all = append(all, found...)
	}
	health.Sort(all)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.last = all
	return all
}

func (d *doctor) ofBroker() (found []api.Problem) {
	connection := d.main.State()
	cause, last := connection.Err, connection.Last
	if cause != nil && !d.member.Switch().IsOff() {
		remedy := "check that the broker runs at " + d.member.URL()
		if e, ok := errors.AsType[*api.Error](cause); ok && e.Remedy != "" {
			remedy = e.Remedy
		}
		found = append(found, health.BrokerUnreachable.Of("broker "+d.member.URL(), remedy, "%s; last heard %s", cause, ago(last)))
	}
	if skew := d.member.Client().Skew(); skew.Abs() > skewed {
		found = append(found, health.ClockSkew.Of("broker "+d.member.URL(), "synchronize both clocks with NTP", "its clock is %s ahead of this one", skew.Round(time.Second)))
	}
	if ends, used := d.member.TokenEnds(); used {
		return append(found, d.ofToken(ends)...)
	}
	certificate, err := d.member.Certificate()
	switch now := time.Now(); {
	case err != nil:
		found = append(found, health.CertificateExpired.Of("", "", "%s", err))
	case now.After(certificate.NotAfter):
		found = append(found, health.CertificateExpired.Of("", "read the agent's log and check that it reaches the broker: it then renews the certificate with its cluster key; a certificate of --broker-cert-path is renewed by its issuer", "the certificate for the broker ended %s", certificate.NotAfter.Format(time.RFC3339)))
	case now.After(tlsid.RenewAt(certificate, d.cluster).Add(time.Hour)):
		found = append(found, health.CertificateExpiring.Of("", "read the agent's log, and check that it reaches the broker", "the certificate for the broker ends %s", certificate.NotAfter.Format(time.RFC3339)))
	}
	return found
}

// tokenEnding is how long before its end the token for the broker's cluster should have been replaced.
const tokenEnding = 24 * time.Hour

// ofToken looks at the token for the broker's cluster, which ends then.
func (d *doctor) ofToken(ends time.Time) []api.Problem {
	remedy := "ask the broker's operator for a new kubeconfig (bourse broker kubeconfig " + d.cluster + "), and replace the file of --broker-kubeconfig"
	switch left := time.Until(ends); {
	case ends.IsZero() || left > tokenEnding:
		return nil
	case left > 0:
		return []api.Problem{health.CertificateExpiring.Of("", remedy, "the token for the broker's cluster ends %s", ends.UTC().Format(time.RFC3339))}
	}
	return []api.Problem{health.CertificateExpired.Of("", remedy, "the token for the broker's cluster ended %s", ends.UTC().Format(time.RFC3339))}
}

func ago(t time.Time) string {
	if t.IsZero() {
		return "never"
	}
	return time.Since(t).Round(time.Second).String() + " ago"
}

func (d *doctor) ofSharing(lends bool) (found []api.Problem) {
	if !lends {
		return []api.Problem{health.NothingShared.Of("", "to lend, create one: docs/objects/sharingpolicy.yaml", "no SharingPolicy named default is in force")}
	}
	for _, f := range sharing.IgnoredFields(d.sharing.Sharing()) {
		found = append(found, health.FieldIgnored.Of("SharingPolicy "+f.Path, f.Remedy, "the field has no effect"))
	}
	l := d.market.View().Listing(d.cluster)
	if l == nil {
		return found
	}
	for _, p := range l.Pools {
		if !p.Available.Negative() {
			continue
		}
		m := l.Measured.Pools[p.Name]
		if left := m.Allocatable.Minus(m.Allocated).Minus(p.Reserved).Only(p.Reserved); left.Negative() {
			found = append(found, health.NotCovered.Of("pool "+p.Name, "move the cluster's own pods, or add nodes", "allocatable, less its own pods and the reservations, leaves %s", words(left)))
		} else {
			found = append(found, health.Overcommitted.Of("pool "+p.Name, "share more in the SharingPolicy, or wait until reservations end", "available: %s", words(p.Available)))
		}
	}
	return found
}

// ofLedger looks whether a Ledger takes in anything new, and who takes most of it.
func ofLedger(ctx context.Context, name string, ledger interface {
	Size() journal.Size
	Read(context.Context, func(*market.State)) error
}) []api.Problem {
	size, most := ledger.Size(), "nobody"
	if size.Use() < exchange.Crowded {
		return nil
	}
	_ = ledger.Read(ctx, func(s *market.State) { most = cmp.Or(s.Greediest(), most) })
	return []api.Problem{health.LedgerCrowded.Of("ledger "+name, "release or evict what nobody needs (bourse reservations, bourse evict), or wait until some of it ends",
		"it uses %s; of its consumers, %s takes most", size, most)}
}

// words are the amounts below 0.
func words(a market.Amounts) string {
	var out []string
	for name, amount := range a.Resources() {
		if amount.Sign() < 0 {
			out = append(out, amount.String()+" "+string(name))
		}
	}
	slices.Sort(out)
	return strings.Join(out, ", ")
}

// behindNetwork says that consumers reach the API server through the network only.
func (d *doctor) behindNetwork() bool {
	s := d.sharing.Sharing()
	return s != nil && s.APIServerAccess == api.APIServerNetwork
}

// ofAccess looks whether there is a way to an API server behind the network.
func (d *doctor) ofAccess(ctx context.Context) (found []api.Problem, err error) {
	if d.here == nil || !d.behindNetwork() {
		return nil, nil
	}
	if !d.gateway.Joins() {
		return []api.Problem{health.APIServerProxy.Of("", "install Liqo with networking, and start the agent with --network-gateway", "this cluster takes part in no network")}, nil
	}
	_, err = (&network.Network{Reader: d.reader, LiqoNamespace: d.liqo}).Proxy(ctx)
	if cannot, ok := errors.AsType[*api.Error](err); ok {
		return []api.Problem{health.APIServerProxy.Of("namespace "+d.liqo, cannot.Remedy, "%s", cannot.Detail)}, nil
	}
	return nil, err
}

// ofPeers looks at keys, and at the Liqo of others.
func (d *doctor) ofPeers(ctx context.Context) (found []api.Problem, err error) {
	var list api.PeerList
	if err := d.List(ctx, &list, client.InNamespace(d.namespace)); err != nil {
		return nil, err
	}
	for _, p := range list.Items {
		if c := meta.FindStatusCondition(p.Status.Conditions, api.ConditionLegacyAccounting); c != nil {
			found = append(found, health.LegacyAccounting.Of("cluster "+p.Name, "replace its agent: docs/migrate.md", "%s", c.Message))
		}
		c := meta.FindStatusCondition(p.Status.Conditions, api.ConditionTrusted)
		if c == nil {
			continue
		}
		remedy := fmt.Sprintf("ask its admin for the fingerprint (bourse status), then: bourse trust %s FINGERPRINT", p.Name)
		switch c.Reason {
		case string(api.CodeKeyChanged):
			found = append(found, health.KeyChanged.Of("cluster "+p.Name, remedy, "%s", c.Message))
		case string(api.CodeKeyUnconfirmed):
			found = append(found, health.KeyUnconfirmed.Of("cluster "+p.Name, remedy, "%s", c.Message))
		}
	}
	return found, nil
}

func (d *doctor) ofPeerings(ctx context.Context) (found []api.Problem, err error) {
	if d.here == nil {
		return nil, nil
	}
	var list api.PeeringList
	if err := d.List(ctx, &list, client.InNamespace(d.namespace)); err != nil {
		return nil, err
	}
	for _, p := range list.Items {
		s := p.Status
		subject := "cluster " + p.Spec.Cluster
		if waits := s.State == api.PeeringOpening || s.State == api.PeeringClosing; waits && s.Since != nil && time.Since(s.Since.Time) > stuck {
			found = append(found, health.PeeringStuck.Of(subject, "see: kubectl -n "+d.namespace+" describe peering "+p.Name, "peering %s has been %s since %s and waits for %s",
				p.Name, s.State, s.Since.Format(time.RFC3339), cmp.Or(strings.Trim(s.Step+": "+s.Message, ": "), "the other cluster")))
		}
		theirs, err := d.broker.Cluster(ctx, p.Spec.Cluster)
		if err != nil {
			continue // it does not show itself, or the broker is away: that is said elsewhere
		}
		own := d.here.Installation().Version
		if a, b := liqo.Minor(own), liqo.Minor(theirs.Payload.Properties.Liqo); a != "" && b != "" && a != b {
			found = append(found, health.VersionSkew.Of(subject, "bring both clusters to the same minor version", "it runs Liqo %s, this cluster runs %s", theirs.Payload.Properties.Liqo, own))
		}
	}
	return found, nil
}

// ofNames looks for consumers whose IDs are users or groups here.
func (d *doctor) ofNames(ctx context.Context) ([]api.Problem, error) {
	if d.here == nil {
		return nil, nil
	}
	var list api.PeeringList
	if err := d.List(ctx, &list, client.InNamespace(d.namespace)); err != nil {
		return nil, err
	}
	var consumers []string
	for _, p := range list.Items {
		if p.Spec.Role == api.RoleConsumer {
			consumers = append(consumers, p.Spec.Cluster)
		}
	}
	if len(consumers) == 0 {
		return nil, nil
	}
	bindings, err := posture.ReadBindings(ctx, d.reader)
	return bindings.Colliding(consumers...), err
}

// ofCertificates looks at those by which consumers' Liqos act at providers, which they renew by themselves.
func (d *doctor) ofCertificates(ctx context.Context) (found []api.Problem, err error) {
	if d.here == nil {
		return nil, nil
	}
	all, err := peering.Certificates(ctx, d)
	for _, c := range all {
		subject, ends := "cluster "+c.Peer, c.Until.UTC().Format(time.RFC3339)
		switch now := time.Now(); {
		case now.After(c.Until):
			found = append(found, health.CertificateExpired.Of(subject, c.Remedy, "the certificate of %s ended %s", c.Object, ends))
		case c.Overdue(now):
			found = append(found, health.CertificateExpiring.Of(subject, c.Remedy, "the certificate of %s ends %s, and Liqo has not renewed it", c.Object, ends))
		}
	}
	return found, err
}

// Preflight looks at a cluster through a kubeconfig, before there is an agent.
func Preflight(ctx context.Context, config *rest.Config, liqoNamespace string) (api.Diagnosis, error) {
	c, err := client.New(config, client.Options{Scheme: scheme.New()})
	if err != nil {
		return api.Diagnosis{}, api.Errorf(api.CodeUnavailable, "the cluster does not answer: %s", err).Fix("check that kubectl works with this kubeconfig")
	}
	inspection := posture.Inspection{
		Reader: c, Lists: c, Writer: c, Before: true, Lends: true, Namespace: liqoNamespace, LiqoNamespace: liqoNamespace, Dial: peeraddress.Anywhere().DialTLS,
		Installed: func() (bool, error) { return liqo.Installed(c.RESTMapper()) },
	}
	all := inspection.Problems(ctx)
	health.Sort(all)
	return api.Diagnosis{Problems: all}, nil
}
