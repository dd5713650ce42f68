package doctor

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	testclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/agent/federation/enrollment"
	"github.com/bourse-dev/bourse/internal/agent/federation/session"
	"github.com/bourse-dev/bourse/internal/agent/scheme"
	"github.com/bourse-dev/bourse/internal/health"
	"github.com/bourse-dev/bourse/internal/journal"
	"github.com/bourse-dev/bourse/internal/market"
	"github.com/bourse-dev/bourse/internal/sim/kubeapi"
)

// sized is a Ledger of some size.
type sized struct {
	size  journal.Size
	state *market.State
}

func (l sized) Size() journal.Size { return l.size }

func (l sized) Read(_ context.Context, look func(*market.State)) error { look(l.state); return nil }

// findIn runs a check that does not fail.
func findIn(t *testing.T, find func(context.Context) ([]api.Problem, error)) []api.Problem {
	t.Helper()
	found, err := find(t.Context())
	if err != nil {
		t.Error(err)
	}
	return found
}

// The doctor warns of a Ledger that takes nothing new in, and names the consumer that has most in it.
func TestDoctorSeesACrowdedLedger(t *testing.T) {
	state := market.New("milan")
	for i, consumer := range []string{"oslo", "rome", "paris", "rome"} {
		r := &market.Reservation{ID: fmt.Sprint("r-", i), Consumer: consumer,
			Provider: "milan", Pool: api.GeneralPool, State: api.Reserved, Generation: 1}
		state.Apply(market.Event{Time: 1, Reservation: &market.ReservationEvent{Reservation: r}})
	}
	for use, want := range map[int64]int{0: 0, 590: 0, 600: 1, 1000: 1} {
		found := findIn(t,
			Ledgers{"ledger": sized{journal.Size{Snapshot: use - use/10, Tail: use / 10, Space: 1000}, state}}.Find)
		if len(found) != want || want > 0 && (found[0].Code != health.LedgerCrowded.Code ||
			found[0].Subject != "ledger ledger" || found[0].Remedy == "" ||
			!strings.Contains(found[0].Detail, "rome takes most")) {
			t.Errorf("at %d of 1000: %+v", use, found)
		}
	}
	if found := findIn(t, Ledgers{"market": sized{journal.Size{Snapshot: 1 << 40}, state}}.Find); found != nil {
		t.Errorf("without a bound: %+v", found)
	}
}

// No check waits for another, and each has a bound.
func TestChecksRunAtOnce(t *testing.T) {
	one, other := make(chan struct{}), make(chan struct{})
	meets := func(own, theirs chan struct{}) func(context.Context) ([]api.Problem, error) {
		return func(ctx context.Context) ([]api.Problem, error) {
			if _, bounded := ctx.Deadline(); !bounded {
				return nil, errors.New("it may take for ever")
			}
			close(own)
			select {
			case <-theirs:
				return nil, nil
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		}
	}
	d := New(Options{Checks: []Check{{"one", meets(one, other)}, {"other", meets(other, one)}}})
	if found := d.Diagnose(t.Context()); len(found) > 0 {
		t.Errorf("found %+v", found)
	}
}

// A caller that leaves has the checks find nothing. That is not what the doctor found last.
func TestACallerThatLeaves(t *testing.T) {
	d := New(Options{Checks: []Check{{"peers", func(ctx context.Context) ([]api.Problem, error) {
		return []api.Problem{health.GoesOn.Of("", "", "x")}, ctx.Err()
	}}}})
	want := d.Diagnose(t.Context())
	gone, leave := context.WithCancel(t.Context())
	leave()
	d.Diagnose(gone)
	if last := d.Last(); !slices.EqualFunc(last, want, func(a, b api.Problem) bool { return a.Code == b.Code }) {
		t.Errorf("the last is %+v, want %+v", last, want)
	}
}

// Problems of all checks are sorted, and a check that fails is one. Run shows them again soon where that
// failed, and otherwise after ten minutes.
func TestDoctor(t *testing.T) {
	now, shown := testclock.NewFakeClock(time.Now()), make(chan []api.Problem)
	rounds := 0
	d := New(Options{
		Clock: now,
		Show: func(_ context.Context, found []api.Problem) error {
			shown <- found
			if rounds++; rounds == 1 {
				return errors.New("nothing was advertised yet")
			}
			return nil
		},
		Checks: []Check{
			{"peers", func(context.Context) ([]api.Problem, error) {
				return []api.Problem{health.GoesOn.Of("", "", "x")}, errors.New("away")
			}},
			{"keys", func(context.Context) ([]api.Problem, error) {
				return []api.Problem{health.KeyChanged.Of("cluster rome", "", "y")}, nil
			}},
		},
	})
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- d.Run(ctx) }()
	found := <-shown
	if len(found) != 3 || found[0].Code != health.KeyChanged.Code || len(d.Last()) != 3 {
		t.Errorf("it shows %+v", found)
	}
	if !slices.ContainsFunc(found, func(p api.Problem) bool {
		return p.Code == health.NotChecked.Code &&
			p.Subject == "peers"
	}) {
		t.Errorf("a check that fails is no problem: %+v", found)
	}
	for _, wait := range []time.Duration{retryEvery, lookEvery} {
		for end := time.Now().Add(time.Minute); !now.HasWaiters(); time.Sleep(time.Millisecond) {
			if time.Now().After(end) {
				t.Fatal("it does not wait")
			}
		}
		now.Step(wait)
		<-shown
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if audit, err := d.Audit(t.Context(), "rome"); err != nil || audit.Cluster != "rome" {
		t.Errorf("without Liqo: %+v, %v", audit, err)
	}
}

// member is this cluster at its main broker.
type member struct {
	disabled bool
	skew     time.Duration
	ends     time.Time
	admitted enrollment.Admission
	proxy    string
	strange  string // the broker of a token that is not this broker's
}

func (m member) URL() string                             { return "https://broker" }
func (m member) ProxyTo(string) string                   { return m.proxy }
func (m member) IsDisabled() bool                        { return m.disabled }
func (m member) Skew() time.Duration                     { return m.skew }
func (m member) TokenEnds() (time.Time, bool)            { return m.ends, true }
func (m member) Certificate() (*x509.Certificate, error) { return nil, errors.New("there is none") }
func (m member) Admission() enrollment.Admission         { return m.admitted }

func (m member) TokenElsewhere(context.Context) (string, error) { return m.strange, nil }

// notJoined is this cluster before it joins, for a reason.
func notJoined(reason string) member {
	return member{admitted: enrollment.Admission{Reason: reason, Err: api.Errorf(api.CodeUnavailable, "no")}}
}

// known are the brokers of this cluster.
type known struct{ main session.State }

func (k known) MainState() session.State { return k.main }

func (k known) List(context.Context) ([]api.Envelope[api.KnownBroker], error) {
	broker := func(id, reason string, status metav1.ConditionStatus) api.Envelope[api.KnownBroker] {
		b := api.Envelope[api.KnownBroker]{ID: id}
		b.Payload.Status.Conditions = []metav1.Condition{{Type: api.ConditionConnected,
			Status: status, Reason: reason, Message: "m"}}
		return b
	}
	return []api.Envelope[api.KnownBroker]{
		broker(api.MainBroker, "Unavailable", metav1.ConditionFalse), broker("north",
			"Connected", metav1.ConditionTrue), broker("south", "NotJoined", metav1.ConditionFalse),
		broker("east", "Suspended", metav1.ConditionFalse),
	}, nil
}

func TestBrokers(t *testing.T) {
	now := testclock.NewFakeClock(time.Now())
	lost := session.State{Err: api.Errorf(api.CodeUnavailable, "away")}
	for name, c := range map[string]struct {
		member member
		main   session.State
		want   []string
	}{
		"all is well":        {member{}, session.State{}, nil},
		"the broker is lost": {member{}, lost, []string{health.BrokerUnreachable.Code}},
		"this cluster is suspended": {member{}, session.State{Err: api.Errorf(api.CodeSuspended, "member rome is Suspended")},
			[]string{health.NotAdmitted.Code}},
		"this cluster waits for approval": {member{}, session.State{Err: api.Errorf(api.CodeNotMember, "rome waits")},
			[]string{health.NotAdmitted.Code}},
		"the broker is disabled": {member{disabled: true}, lost, nil},
		"there is no token":      {notJoined(api.ReasonWaitsForToken), lost, []string{health.WaitsForToken.Code}},
		"the token is refused":   {notJoined(api.ReasonJoinRefused), lost, []string{health.JoinRefused.Code}},
		"it cannot be joined":    {notJoined(api.ReasonBrokerUnreachable), lost, []string{health.BrokerUnreachable.Code}},
		"it is a clone":          {notJoined(api.ReasonClonedIdentity), lost, []string{health.ClonedIdentity.Code}},
		"another broker's token": {member{strange: "https://other"}, session.State{}, []string{health.TokenElsewhere.Code}},
		"its clock is ahead": {member{skew: maxSkew + time.Second},
			session.State{}, []string{health.ClockSkew.Code}},
		"its clock is behind": {member{skew: -maxSkew - time.Second},
			session.State{}, []string{health.ClockSkew.Code}},
		"a token that ends late": {member{ends: now.Now().Add(renewTokenWithin + time.Minute)},
			session.State{}, nil},
		"a token that ends soon": {member{ends: now.Now().Add(time.Hour)},
			session.State{}, []string{health.CertificateExpiring.Code}},
		"a token that ended already": {member{ends: now.Now().Add(-time.Hour)},
			session.State{}, []string{health.CertificateExpired.Code}},
	} {
		var got []string
		for _, p := range findIn(t, MainBroker{Cluster: "rome", Membership: c.member,
			Brokers: known{c.main}, Clock: now}.Find) {
			got = append(got, p.Code)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
	for name, m := range map[string]member{"joined": {}, "not joined": notJoined(api.ReasonBrokerUnreachable)} {
		m.proxy = "http://proxy:3128"
		found := findIn(t, MainBroker{Cluster: "rome", Membership: m, Brokers: known{lost}, Clock: now}.Find)
		if len(found) == 0 || !strings.Contains(found[0].Remedy, "calls it through http://proxy:3128 (HTTPS_PROXY)") ||
			!strings.Contains(found[0].Remedy, "NO_PROXY") {
			t.Errorf("through a proxy, %s: %+v", name, found)
		}
	}
	others := findIn(t, OtherBrokers{Brokers: known{}, Clock: now}.Find)
	if len(others) != 2 || others[1].Code != health.NotAdmitted.Code || others[0].Code != health.BrokerUnreachable.Code ||
		!strings.Contains(others[0].Subject, "south") || !strings.Contains(others[0].Remedy, "--join TOKEN") {
		t.Errorf("others: %+v", others)
	}
}

// The doctor reads what requests and their instructions show: volumes at stake, nodes that are not
// Ready, objects that stay.
func TestDoctorSeesWhatIsBorrowed(t *testing.T) {
	var kinds []kubeapi.Type
	for kind, resource := range map[string]string{"ResourceRequest": "resourcerequests",
		"ReservationInstruction": "reservationinstructions"} {
		kinds = append(kinds, kubeapi.Type{GroupVersion: api.GroupVersion, Kind: kind, Resource: resource, Namespaced: true})
	}
	c, err := client.New(kubeapi.New(kubeapi.Options{Types: kinds}).Config(), client.Options{Scheme: scheme.New()})
	if err != nil {
		t.Fatal(err)
	}
	is := func(kind string, status metav1.ConditionStatus) metav1.Condition {
		return metav1.Condition{Type: kind, Status: status, Message: kind + " " + string(status)}
	}
	for name, shown := range map[string][]metav1.Condition{
		"stake": {is(api.ConditionVolumesAtStake, metav1.ConditionTrue)}, "unread": {is(api.ConditionVolumesAtStake,
			metav1.ConditionUnknown)}, "fine": nil,
	} {
		r := &api.ResourceRequest{ObjectMeta: metav1.ObjectMeta{Namespace: "db", Name: name},
			Status: api.ResourceRequestStatus{Conditions: shown}}
		if err := c.Create(t.Context(), r); err != nil {
			t.Fatal(err)
		}
	}
	no := []metav1.Condition{is(api.ConditionNodeReady, metav1.ConditionFalse),
		is(api.ConditionReflected, metav1.ConditionFalse),
		{Type: api.ConditionOffloaded, Status: metav1.ConditionFalse, Reason: "NamespacesFull", Message: "it is full"}}
	yes := []metav1.Condition{is(api.ConditionNodeReady, metav1.ConditionTrue),
		is(api.ConditionReflected, metav1.ConditionTrue), is(api.ConditionOffloaded, metav1.ConditionFalse)}
	for name, status := range map[string]api.InstructionStatus{
		"r-0": {State: api.Active, Conditions: []metav1.Condition{{Type: api.ConditionReflected,
			Status: metav1.ConditionFalse, Reason: api.QuotaUsedUp, Message: "ended pods hold it"}}},
		"r-1": {State: api.Active, Conditions: no}, "r-2": {State: api.Reserved,
			Conditions: no}, "r-3": {State: api.Active, Conditions: yes},
	} {
		i := &api.ReservationInstruction{ObjectMeta: metav1.ObjectMeta{Namespace: "db", Name: name}, Status: status}
		if err := c.Create(t.Context(), i); err != nil {
			t.Fatal(err)
		}
	}
	var got []string
	for _, p := range findIn(t, Borrowed{Client: c}.Find) {
		got = append(got, p.Code+" "+p.Subject)
		if p.Remedy == "" || p.Detail == "" {
			t.Errorf("%+v", p)
		}
	}
	slices.Sort(got)
	want := []string{"NamespacesFull reservation r-1", "NodeNotReady reservation r-1", "NotReflected reservation r-1", "QuotaUsedUp reservation r-0",
		"VolumesAtStake request db/stake", "VolumesAtStake request db/unread"}
	if !slices.Equal(got, want) {
		t.Errorf("it finds %q, want %q", got, want)
	}
}

// Where a part does not answer, such as an API server that stands still, the doctor says so in time, with what it
// found elsewhere.
func TestAPartThatDoesNotAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		silent := func(ctx context.Context) ([]api.Problem, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}
		heedsNothing := make(chan struct{})
		defer close(heedsNothing)
		d := New(Options{Checks: []Check{
			{About: "Liqo", Find: silent},
			{About: "peerings", Find: func(context.Context) ([]api.Problem, error) {
				<-heedsNothing
				return nil, nil
			}},
			{About: "the main broker", Find: func(context.Context) ([]api.Problem, error) {
				return []api.Problem{health.BrokerUnreachable.Of("", "", "it is away")}, nil
			}},
		}})
		began := time.Now()
		found := d.Diagnose(t.Context())
		if took := time.Since(began); took > 25*time.Second {
			t.Errorf("it took %s", took)
		}
		var codes []string
		for _, p := range found {
			codes = append(codes, p.Code+" "+p.Subject)
		}
		slices.Sort(codes)
		want := []string{"BrokerUnreachable ", "NotChecked Liqo", "NotChecked peerings"}
		if !slices.Equal(codes, want) {
			t.Errorf("it found %q, want %q", codes, want)
		}
	})
}

// A reservation that this cluster signed and lost is a problem, with the act that ends it.
func TestDoctorSeesAReservationWithoutARequest(t *testing.T) {
	unknown := map[string]api.Reservation{"r-1": {State: api.Active, Provider: "milan"}}
	found := findIn(t, Unknown{Unknown: func(context.Context) (map[string]api.Reservation, error) { return unknown, nil }}.Find)
	if len(found) != 1 || found[0].Code != health.WithoutRequest.Code || found[0].Subject != "reservation r-1" ||
		!strings.HasSuffix(found[0].Remedy, ": "+found[0].Argv.String()) ||
		found[0].Argv.String() != "bourse release r-1 --without-request" || !strings.Contains(found[0].Detail, "milan") {
		t.Errorf("found %+v", found)
	}
}
