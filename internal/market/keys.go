package market

import (
	"slices"

	"github.com/bourse-dev/bourse/api"
)

// PutCard makes a verified card what the market shows of a member. Where it has the next key, the member's holds are signed again:
// see [State.owes].
// Errors: KeyChanged when it is of another key than the pinned one, and not of its successor; Conflict for an older card.
type PutCard struct {
	Card   api.Card
	Signed string
	// Former are the keys that the card's key succeeded, by signatures that were verified. Only a card of a new key needs them.
	Former []Former
}

func (c PutCard) decide(s *State, now Time) (Outcome, error) {
	if err := validCard(c.Card); err != nil {
		return Outcome{}, err
	}
	m := s.members[c.Card.Cluster]
	switch {
	case m == nil:
		return Outcome{}, api.Errorf(api.CodeNotMember, "cluster %s is not a member", c.Card.Cluster)
	case !m.leadsTo(c.Card.Key, c.Former):
		return Outcome{}, keyChanged(c.Card.Cluster)
	case c.Card.Legacy != m.Legacy:
		return Outcome{}, api.Invalid("legacy", "the key of cluster %s is %sthe broker's", c.Card.Cluster, map[bool]string{false: "not "}[m.Legacy]).
			Fix("only a broker calls a card legacy: that of an agent that cannot sign")
	case m.Signed == c.Signed:
		return Outcome{Member: m}, nil
	case m.Card != nil && m.Card.Key == c.Card.Key && c.Card.Number <= m.Card.Number: // cards of former keys are not believed again
		return Outcome{}, api.Errorf(api.CodeConflict, "card %d of cluster %s is not newer than %d", c.Card.Number, c.Card.Cluster, m.Card.Number)
	}
	next := *m
	next.Card, next.Signed, next.Changed = &c.Card, c.Signed, now
	next.Key, next.Former = c.Card.Key, m.remembered(c.Former)
	if m.Key != next.Key || m.Card != nil && m.Card.Key != next.Key { // a renewal may have brought the key before its card
		next.Rekeyed = s.Revision
	}
	return Outcome{Member: &next, Events: []Event{{Time: now, Member: &next}}}, nil
}

// Pin remembers, in an agent, the key of a cluster that it meets for the first time, and its successors.
// Errors: KeyChanged when it is known by another key that did not sign this one.
type Pin struct {
	Cluster, Key string
	// Fingerprint is that of Key.
	Fingerprint string
	// Former are the keys that Key succeeded, oldest first, by signatures that were verified.
	Former []Former
	// Endorsed is when a root that the admin trusts has said that the cluster has this key; 0 if none has. Inherited says that
	// it has said so of a former one.
	Endorsed  Time
	Inherited bool
	// Connector is what the cluster's card says of its connector.
	Connector string
	// Legacy says that Key is the broker's, which signs in the cluster's name: it never takes the place of a key of the
	// cluster's own, and the first one of its own takes its place.
	Legacy bool
}

func (c Pin) decide(s *State, now Time) (Outcome, error) {
	m := s.members[c.Cluster]
	if m == nil {
		m = &Member{Cluster: c.Cluster, State: api.MemberActive, Joined: now}
	}
	if m.Legacy && !c.Legacy {
		own := *m
		own.Key, own.Former, own.Legacy = "", nil, false
		m = &own
	}
	heir, former := m.leadsTo(c.Key, c.Former), m.remembered(c.Former)
	confirmed := m.confirms(c, heir, former)
	switch {
	case m.had(c.Key), !heir && m.Key != "" && !confirmed, m.Trusted != "" && !confirmed:
		return Outcome{}, keyChanged(c.Cluster)
	case m.Key == c.Key && m.Confirmed == confirmed && m.Endorsed >= c.Endorsed && m.Connector == c.Connector && m.Legacy == c.Legacy && slices.Equal(m.Former, former):
		return Outcome{Member: m}, nil
	}
	next := *m
	next.Key, next.Former, next.Confirmed, next.Endorsed, next.Changed = c.Key, former, confirmed, max(m.Endorsed, c.Endorsed), now
	next.Connector, next.Legacy = c.Connector, c.Legacy
	return Outcome{Member: &next, Events: []Event{{Time: now, Member: &next}}}, nil
}

// confirms says whether the admin's word, or else a root's, is of a key or of one that it succeeded. What was said of a key
// that is known to have a successor confirms what this leads to, and nothing else that the old key may have signed since.
func (m *Member) confirms(c Pin, heir bool, former []Former) bool {
	if m.Trusted != "" { // the admin's own word goes before a root's
		return m.Trusted == c.Fingerprint || named(former, m.Trusted) && (heir || !named(m.Former, m.Trusted))
	}
	newer := c.Endorsed > m.Endorsed && (heir || m.Key == "" || !c.Inherited)
	return c.Endorsed > 0 && (newer || heir && c.Endorsed == m.Endorsed)
}

// leadsTo says whether key is the one that is pinned, or one that it signed, or that its successor signed, and so on.
func (m *Member) leadsTo(key string, former []Former) bool {
	if m.Key == key {
		return true
	}
	return m.Key != "" && !m.had(key) && slices.ContainsFunc(former, func(f Former) bool { return f.Key == m.Key })
}

// had says whether the cluster has given up a key.
func (m *Member) had(key string) bool {
	return slices.ContainsFunc(m.Former, func(f Former) bool { return f.Key == key })
}

// remembered are the former keys with those that are known already, the newest of them.
func (m *Member) remembered(former []Former) []Former {
	all := slices.DeleteFunc(slices.Clone(m.Former), func(f Former) bool { return slices.Contains(former, f) })
	all = append(all, former...)
	return all[max(0, len(all)-api.MaxRotations):]
}

// named says whether a fingerprint is that of one of the keys.
func named(former []Former, fingerprint string) bool {
	return slices.ContainsFunc(former, func(f Former) bool { return f.Fingerprint == fingerprint })
}

// Trust is the word of an agent's own admin, which key a cluster has: what it shows from now on must be that key, even
// where another was pinned. A key that signed its successor is not believed again: to name it means the key that is pinned in
// its place. An empty fingerprint takes the word back; what is pinned then stays so.
type Trust struct{ Cluster, Fingerprint string }

func (c Trust) decide(s *State, now Time) (Outcome, error) {
	if err := ValidCluster("cluster", c.Cluster); err != nil {
		return Outcome{}, err
	}
	m := s.members[c.Cluster]
	switch {
	case m == nil && c.Fingerprint == "", m != nil && m.Trusted == c.Fingerprint:
		return Outcome{Member: m}, nil
	case m == nil:
		m = &Member{Cluster: c.Cluster, State: api.MemberActive, Joined: now}
	}
	next := *m
	next.Trusted, next.Confirmed, next.Changed = c.Fingerprint, named(m.Former, c.Fingerprint), now
	return Outcome{Member: &next, Events: []Event{{Time: now, Member: &next}}}, nil
}

func keyChanged(cluster string) error {
	return api.Errorf(api.CodeKeyChanged, "cluster %s shows another key than the one that was pinned", cluster).
		Fix("find out why; if it is right, its admin tells you the new fingerprint: bourse trust %s FINGERPRINT", cluster)
}
