package market

import (
	"cmp"
	"crypto/subtle"

	"github.com/bourse-dev/bourse/api"
)

// CreateToken records a join token, with the hash of its secret.
type CreateToken struct{ Token Token }

func (c CreateToken) decide(s *State, now Time) (Outcome, error) {
	if s.tokens[c.Token.ID] != nil {
		return Outcome{}, api.Errorf(api.CodeConflict, "token %s exists", c.Token.ID)
	}
	if c.Token.Cluster != "" {
		if err := ValidCluster("cluster", c.Token.Cluster); err != nil {
			return Outcome{}, err
		}
	}
	return Outcome{Token: &c.Token, Events: []Event{{Time: now, Token: &c.Token}}}, nil
}

// DeleteToken makes a join token void. Errors: NotFound; Conflict for one that a cluster used:
// revoke the cluster.
type DeleteToken struct{ ID string }

func (c DeleteToken) decide(s *State, now Time) (Outcome, error) {
	t := s.tokens[c.ID]
	if t == nil {
		return Outcome{}, api.Errorf(api.CodeNotFound, "there is no join token %.80q", c.ID).
			FixBy("see", "bourse", "broker", "token", "list")
	}
	if t.UsedBy != "" {
		return Outcome{}, api.Errorf(api.CodeConflict, "cluster %s joined with token %s", t.UsedBy, c.ID).
			Fix("to refuse the cluster: bourse broker revoke %s", t.UsedBy)
	}
	return forget(Forget{Tokens: []string{c.ID}}, now), nil
}

// Join makes a cluster a member. If the token does not name the cluster, it waits for approval. The
// proof of its key was verified. Errors: TokenSpent for a token that is unknown, expired, used, or
// for another cluster; KeyChanged if the cluster is known by another key; Suspended if it was
// revoked.
type Join struct {
	TokenID, Hash string
	Cluster       string
	Key, TLSKey   string
	Source        string
}

func (c Join) decide(s *State, now Time) (Outcome, error) {
	if err := ValidCluster("cluster", c.Cluster); err != nil {
		return Outcome{}, err
	}
	t, m := s.tokens[c.TokenID], s.members[c.Cluster]
	if t == nil || subtle.ConstantTimeCompare([]byte(t.Hash), []byte(c.Hash)) != 1 {
		return Outcome{}, api.Errorf(api.CodeTokenSpent, "the join token is not known here: "+
			"it ended long ago, is of another broker, or was made before the broker was restored from a backup").
			Fix("ask the operator for a new one: bourse broker token create")
	}
	if m != nil && m.State == api.MemberRevoked {
		return Outcome{}, api.Errorf(api.CodeSuspended, "cluster %s was revoked", c.Cluster).
			Fix("ask the operator to remove it first")
	}
	again := m != nil && m.State != api.MemberRemoved && m.Key == c.Key && m.TLSKey == c.TLSKey
	if t.UsedBy == c.Cluster && again {
		return Outcome{Member: m}, nil
	}
	if err := c.checkToken(t, m, now); err != nil {
		return Outcome{}, err
	}
	if err := s.checkRemoved(m); err != nil {
		return Outcome{}, err
	}
	spent := *t
	spent.UsedBy = c.Cluster
	next := c.member(s, t, m, now)
	return Outcome{Member: next, Events: []Event{{Time: now, Token: &spent}, {Time: now, Member: next}}}, nil
}

// checkToken reports why a token does not make the cluster a member. former is the member that it was; nil: none.
func (c Join) checkToken(t *Token, former *Member, now Time) error {
	switch {
	case t.UsedBy != "":
		return api.Errorf(api.CodeTokenSpent, "the join token was used by a cluster already").
			Fix("ask the operator for a new one")
	case now >= t.Expires:
		return api.Errorf(api.CodeTokenSpent, "the join token expired").Fix("ask the operator for a new one")
	case t.Cluster != "" && t.Cluster != c.Cluster:
		return api.Errorf(api.CodeTokenSpent, "the join token is for another cluster than %s", c.Cluster)
	case former == nil || former.Key == c.Key || former.State == api.MemberRemoved:
		return nil
	case former.Legacy && t.Cluster == c.Cluster: // its first own key: the operator's token names the cluster
		return nil
	}
	return api.Errorf(api.CodeKeyChanged, "cluster %s is known by another key", c.Cluster).
		Fix("restore the cluster's identity, or ask the operator to remove the member")
}

// member returns the member that a cluster becomes by a token. m is the member that it was; nil: none.
func (c Join) member(s *State, t *Token, m *Member, now Time) *Member {
	next := &Member{Cluster: c.Cluster, State: api.MemberPending, Key: c.Key, TLSKey: c.TLSKey,
		TLSKeys: []TLSKey{{Key: c.TLSKey}},
		Token:   c.TokenID, Source: c.Source, Joined: now, Changed: now}
	if m != nil {
		next.CertificatesFrom = m.CertificatesFrom
	}
	if m != nil && m.State != api.MemberRemoved { // a known member keeps its state
		next.State, next.Joined, next.Caps, next.Enabled = m.State, m.Joined, m.Caps, m.Enabled
		if m.Key == c.Key {
			next.Card, next.Signed, next.Former, next.Legacy = m.Card, m.Signed, m.Former, m.Legacy
		}
	}
	if t.Cluster == c.Cluster && next.State == api.MemberPending {
		next.State = api.MemberActive
	}
	if m != nil {
		if next.Rekeyed = m.Rekeyed; m.Key != next.Key {
			next.Rekeyed = s.Revision
		}
	}
	return next
}

// Enroll makes a cluster without a token wait for approval: its certificate is of another CA, or its agent is
// legacy. Errors: Conflict if it is known already.
type Enroll struct {
	Cluster, Key, Source string
	// Legacy says that the broker signs for the cluster, with this key.
	Legacy bool
}

func (c Enroll) decide(s *State, now Time) (Outcome, error) {
	if err := ValidCluster("cluster", c.Cluster); err != nil {
		return Outcome{}, err
	}
	former := s.members[c.Cluster]
	if former != nil && former.State != api.MemberRemoved {
		return Outcome{}, api.Errorf(api.CodeConflict, "cluster %s is known already", c.Cluster)
	}
	if err := s.checkRemoved(former); err != nil {
		return Outcome{}, err
	}
	m := &Member{
		Cluster: c.Cluster, State: api.MemberPending, Key: c.Key, Legacy: c.Legacy, Source: c.Source, Joined: now,
		Changed: now,
	}
	if former != nil {
		m.CertificatesFrom = former.CertificatesFrom
	}
	return Outcome{Member: m, Events: []Event{{Time: now, Member: m}}}, nil
}

// SetMember sets the state of a member. To remove it takes its offers off sale. The next ticks end its
// reservations (see [State.debtOf]): what it provides is Released, what it consumes is Releasing until its
// provider reports that it is free. Errors: NotFound; Conflict for an impossible step.
type SetMember struct {
	Cluster string
	State   api.MemberState
	// At is the time by the clock of certificates: to revoke or remove ends older ones. 0: the market's time.
	At Time
}

func (c SetMember) decide(s *State, now Time) (Outcome, error) {
	m := s.members[c.Cluster]
	switch {
	case m == nil:
		return Outcome{}, api.Errorf(api.CodeNotFound, "no member %.80q", c.Cluster).FixBy("see", "bourse", "broker", "members")
	case m.State == c.State:
		return Outcome{Member: m}, nil
	case m.State == api.MemberRemoved, m.State == api.MemberRevoked && c.State != api.MemberRemoved:
		return Outcome{}, api.Errorf(api.CodeConflict, "member %s is %s: it must join again", c.Cluster, m.State)
	case m.State == api.MemberPending && c.State == api.MemberSuspended:
		return Outcome{}, api.Errorf(api.CodeConflict, "member %s is not approved yet", c.Cluster)
	case c.State == api.MemberPending:
		return Outcome{}, api.Errorf(api.CodeConflict, "member %s was approved already", c.Cluster).
			Fix("suspend or remove it")
	}
	next := *m
	next.State, next.Changed = c.State, now
	if c.State == api.MemberRevoked || c.State == api.MemberRemoved {
		next.endCertificates(cmp.Or(c.At, now))
	}
	out := Outcome{Member: &next, Events: []Event{{Time: now, Member: &next}}}
	if c.State == api.MemberRemoved {
		if p := s.providers[c.Cluster]; p != nil {
			for _, o := range p.onSale {
				out.Events = append(out.Events, s.takenOff(o, now))
			}
		}
	}
	return out, nil
}

// active reports why a cluster may not trade, or nil. Errors: NotMember, Suspended.
func (s *State) active(cluster string) error {
	switch m := s.members[cluster]; {
	case m == nil || m.State == api.MemberPending:
		return api.Errorf(api.CodeNotMember, "cluster %s is not a member yet", cluster).Fix("ask the operator to approve it")
	case m.State != api.MemberActive:
		return api.Errorf(api.CodeSuspended, "member %s is %s", cluster, m.State).Fix("ask the operator")
	}
	return nil
}

// Suspend records that the agent's admin lends a consumer nothing more. Existing reservations stay. An empty
// Why ends the suspension. Errors: Invalid.
type Suspend struct{ Cluster, Why string }

func (c Suspend) decide(s *State, now Time) (Outcome, error) {
	if err := ValidCluster("cluster", c.Cluster); err != nil {
		return Outcome{}, err
	}
	m := s.members[c.Cluster]
	switch {
	case m == nil && c.Why == "", m != nil && m.Suspended == c.Why:
		return Outcome{Member: m}, nil
	case m == nil:
		m = &Member{Cluster: c.Cluster, State: api.MemberActive, Joined: now}
	}
	next := *m
	next.Suspended, next.Changed = c.Why, now
	return Outcome{Member: &next, Events: []Event{{Time: now, Member: &next}}}, nil
}

// checkSuspension reports whether this cluster's admin suspended a consumer. Errors: Suspended.
func (s *State) checkSuspension(consumer string) error {
	if m := s.members[consumer]; m != nil && m.Suspended != "" {
		return api.Errorf(api.CodeSuspended, "the admin of %s has suspended %s: %s", s.Self, consumer, m.Suspended)
	}
	return nil
}

// memberOrNew returns the record of a cluster, or that of one which an agent did not know.
func (s *State) memberOrNew(cluster string, now Time) *Member {
	if m := s.members[cluster]; m != nil {
		return m
	}
	return &Member{Cluster: cluster, State: api.MemberActive, Joined: now}
}
