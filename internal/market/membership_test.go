package market_test

import (
	"testing"
	"time"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/market"
)

func token(id, cluster string) market.CreateToken {
	return market.CreateToken{Token: market.Token{ID: id, Hash: "hash", Cluster: cluster, Expires: noon + 1000}}
}

func joining(token, cluster string) market.Join {
	return market.Join{TokenID: token, Hash: "hash", Cluster: cluster,
		Key: "k-" + cluster, TLSKey: "tls", Source: "192.0.2.1"}
}

func (d *testBroker) standing(cluster string, want api.MemberState) {
	d.t.Helper()
	if m := d.state.Member(cluster); m == nil || m.State != want {
		d.t.Errorf("%s is %s, want %s", cluster, dump(m), want)
	}
}

func TestJoin(t *testing.T) {
	d := newTestBroker(t)
	d.must(token("named", "oslo"))
	d.must(token("open", ""))
	d.must(joining("named", "oslo"))
	d.standing("oslo", api.MemberActive)
	d.must(joining("open", "nice"))
	d.standing("nice", api.MemberPending)
	d.must(market.SetMember{Cluster: "nice", State: api.MemberActive})
	d.standing("nice", api.MemberActive)
	d.must(joining("open", "nice")) // as after a lost answer, or a restart
	if got := d.state.Tokens(); len(got) != 2 || got[0].UsedBy != "oslo" || got[1].UsedBy != "nice" {
		t.Errorf("tokens: %s", dump(got))
	}
}

func TestJoinErrors(t *testing.T) {
	change := func(token, cluster string, change func(*market.Join)) market.Join {
		j := joining(token, cluster)
		change(&j)
		return j
	}
	for name, c := range map[string]struct {
		join market.Join
		want api.Code
	}{
		"a name that is none":        {joining("open", "Oslo!"), api.CodeInvalid},
		"no name":                    {joining("open", ""), api.CodeInvalid},
		"no token":                   {joining("none", "oslo"), api.CodeTokenSpent},
		"a wrong secret":             {change("open", "oslo", func(j *market.Join) { j.Hash = "guess" }), api.CodeTokenSpent},
		"a token that another used":  {joining("used", "oslo"), api.CodeTokenSpent},
		"a token for another":        {joining("for-turin", "oslo"), api.CodeTokenSpent},
		"an expired token":           {joining("old", "oslo"), api.CodeTokenSpent},
		"its own token, another key": {change("used", "nice", func(j *market.Join) { j.Key = "k2" }), api.CodeTokenSpent},
		"its own token, other TLS": {change("used", "nice", func(j *market.Join) { j.TLSKey = "tls2" }),
			api.CodeTokenSpent},
		"a known name, another key": {change("open", "rome", func(j *market.Join) { j.Key = "k2" }), api.CodeKeyChanged},
		"a revoked member":          {joining("open", "turin"), api.CodeSuspended},
		"a removed one's old token": {joining("gone", "lyon"), api.CodeTokenSpent},
	} {
		t.Run(name, func(t *testing.T) {
			d := newTestBroker(t)
			for _, c := range []market.Command{
				token("open", ""), token("for-turin", "turin"), token("used",
					""), joining("used", "nice"), token("gone", ""), joining("gone", "lyon"),
				market.CreateToken{Token: market.Token{ID: "old", Hash: "hash", Expires: noon}},
				market.SetMember{Cluster: "lyon", State: api.MemberRemoved},
			} {
				d.must(c)
			}
			d.apply(market.Event{Time: noon, Member: &market.Member{Cluster: "turin", State: api.MemberRevoked, Key: "k-turin"}})
			d.fails(c.want, c.join)
		})
	}
}

// A member that joins again keeps the state that the operator set, unless the new token names the cluster.
func TestJoinAnewKeepsTheStanding(t *testing.T) {
	for was, c := range map[api.MemberState]struct{ open, named api.MemberState }{
		api.MemberPending:   {api.MemberPending, api.MemberActive},
		api.MemberActive:    {api.MemberActive, api.MemberActive},
		api.MemberSuspended: {api.MemberSuspended, api.MemberSuspended},
		api.MemberRemoved:   {api.MemberPending, api.MemberActive},
	} {
		for named, want := range map[string]api.MemberState{"": c.open, "oslo": c.named} {
			d := newTestBroker(t)
			d.apply(market.Event{Time: noon, Member: &market.Member{Cluster: "oslo",
				State: was, Key: "k-oslo", Card: &api.Card{Number: 7}, Joined: 5}})
			d.must(token("t", named))
			d.must(joining("t", "oslo"))
			d.standing("oslo", want)
			if m := d.state.Member("oslo"); (m.Card != nil) != (was != api.MemberRemoved) {
				t.Errorf("%s: joined again as %s", was, dump(m))
			}
		}
	}
}

func TestCreateTokenErrors(t *testing.T) {
	d := newTestBroker(t)
	d.must(token("t", ""))
	d.fails(api.CodeConflict, token("t", ""))
	d.fails(api.CodeInvalid, token("u", "not a name"))
}

func TestSetMember(t *testing.T) {
	states := []api.MemberState{api.MemberPending, api.MemberActive,
		api.MemberSuspended, api.MemberRevoked, api.MemberRemoved}
	refused := map[api.MemberState][]api.MemberState{
		api.MemberPending:   {api.MemberSuspended},
		api.MemberActive:    {api.MemberPending},
		api.MemberSuspended: {api.MemberPending},
		api.MemberRevoked:   {api.MemberPending, api.MemberActive, api.MemberSuspended},
		api.MemberRemoved:   {api.MemberPending, api.MemberActive, api.MemberSuspended, api.MemberRevoked},
	}
	for _, from := range states {
		for _, to := range states {
			d := newTestBroker(t)
			d.apply(market.Event{Time: noon, Member: &market.Member{Cluster: "oslo", State: from}})
			want := to
			for _, no := range refused[from] {
				if no == to {
					want = from
				}
			}
			if set := (market.SetMember{Cluster: "oslo", State: to}); want == to {
				d.must(set)
			} else {
				d.fails(api.CodeConflict, set)
			}
			d.standing("oslo", want)
		}
	}
	newTestBroker(t).fails(api.CodeNotFound, market.SetMember{Cluster: "oslo", State: api.MemberActive})
}

// A provider that is removed gives back what it provided; a consumer that is removed still takes it, until
// the provider says that it is free.
func TestRemovedMembersBooksClose(t *testing.T) {
	for removed, want := range map[string]map[string]api.State{
		"rome": {"held": api.Failed, "signed": api.Failed, "bound": api.Released,
			"ending": api.Released, "over": api.Failed, "elsewhere": api.Reserved},
		"paris": {"held": api.Failed, "signed": api.Releasing, "bound": api.Releasing,
			"ending": api.Releasing, "over": api.Failed, "elsewhere": api.Releasing},
	} {
		t.Run(removed, func(t *testing.T) {
			d := newTestBroker(t)
			elsewhere := request("elsewhere", 1)
			elsewhere.Candidates = []string{"milan"}
			d.must(elsewhere)
			d.must(market.Confirm{ID: "elsewhere", Consumer: "paris", Generation: 1, Document: "a"})
			d.must(market.Accept{ID: "elsewhere", Provider: "milan", Generation: 1, Document: "b"})
			d.held("held", 1)
			d.signed("signed", 1)
			d.reserved("bound", 1)
			d.reserved("ending", 1)
			d.must(market.Release{ID: "ending", By: "paris", Generation: 1, Reason: api.ReasonReleased, Document: "end"})
			d.held("over", 1)
			d.must(market.Release{ID: "over", By: "paris", Generation: 1})
			d.must(market.SetMember{Cluster: removed, State: api.MemberRemoved})
			d.pass(0)
			if removed == "rome" { // what it advertised is forgotten: it says again what it has
				d.offers("rome", 1, "8")
			}
			counting := int64(0)
			for id, state := range want {
				r := d.state.Reservation(id)
				if r.State != state {
					t.Errorf("%s is %s, want %s", id, r.State, state)
				}
				if r.State.Counts() && r.Provider == "rome" {
					counting++
				}
			}
			if r := d.state.Reservation("ending"); r.State == api.Releasing && r.Reason != api.ReasonReleased {
				t.Errorf("what was ending ends for another reason: %s", r.Reason)
			}
			if got := d.available("rome"); got != 8000-1000*counting {
				t.Errorf("rome has %d left with %d reservations", got, counting)
			}
			d.fails(api.CodeConflict, market.SetMember{Cluster: removed, State: api.MemberActive})
		})
	}
}

func TestSuspendedMembersKeepWhatTheyHave(t *testing.T) {
	d := newTestBroker(t)
	d.reserved("r", 5)
	d.must(market.SetMember{Cluster: "rome", State: api.MemberSuspended})
	d.want("r", api.Reserved, "", "rome", 3000)
	if out := d.must(request("s", 1)); out.Reservation.Provider != "milan" {
		t.Errorf("placed on %s", out.Reservation.Provider)
	}
	d.must(market.SetMember{Cluster: "rome", State: api.MemberActive})
	d.held("t", 1)
}

func TestPutCard(t *testing.T) {
	d := newTestBroker(t)
	card := func(number int64, key, signed string) market.PutCard {
		return market.PutCard{Card: api.Card{Cluster: "rome", Key: key,
			Number: number, Properties: api.Properties{Region: "eu"}}, Signed: signed}
	}
	d.must(card(2, "k-rome", "two"))
	if l := d.listing("rome"); l.Card().Properties.Region != "eu" || l.Member.Signed != "two" {
		t.Errorf("listed as %s", dump(l))
	}
	d.fails(api.CodeConflict, card(2, "k-rome", "another two"))
	d.fails(api.CodeConflict, card(1, "k-rome", "one"))
	d.fails(api.CodeKeyChanged, card(3, "k-other", "three"))
	stranger := card(1, "k", "s")
	stranger.Card.Cluster = "oslo"
	d.fails(api.CodeNotMember, stranger)
	d.pass(time.Hour)
	d.must(card(3, "k-rome", "three"))
}
