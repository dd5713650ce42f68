package market

import (
	"cmp"
	"regexp"
	"slices"

	"github.com/bourse-dev/bourse/api"
)

// PutCard replaces the card of a member by a newer, verified one. If it has the next key, the member's holds
// are signed again: see [State.debtOf]. Errors: KeyChanged if its key is neither the pinned one nor a
// successor; Conflict for an older card.
type PutCard struct {
	Card   api.Card
	Signed string
	// Former are the keys before the card's key, by verified rotations. Only a card with a new key
	// needs them.
	Former []Former
}

func (c PutCard) decide(s *State, now Time) (Outcome, error) {
	if err := validCard(&c.Card); err != nil {
		return Outcome{}, err
	}
	m := s.members[c.Card.Cluster]
	switch {
	case m == nil:
		return Outcome{}, api.Errorf(api.CodeNotMember, "cluster %s is not a member", c.Card.Cluster)
	case !m.leadsTo(c.Card.Key, c.Former):
		return Outcome{}, keyChanged(c.Card.Cluster)
	case c.Card.Legacy != m.Legacy:
		return Outcome{}, api.Invalid("legacy", "the key of cluster %s is %sthe broker's", c.Card.Cluster,
			map[bool]string{false: "not "}[m.Legacy]).
			Fix("only a broker sets legacy, on the card of an agent that cannot sign")
	case m.Signed == c.Signed:
		return Outcome{Member: m}, nil
	case m.Card != nil && m.Card.Key == c.Card.Key &&
		c.Card.Number <= m.Card.Number: // cards of former keys are not accepted again
		return Outcome{}, api.Errorf(api.CodeConflict, "card %d of cluster %s is not newer than %d", c.Card.Number,
			c.Card.Cluster, m.Card.Number)
	}
	next := *m
	next.Card, next.Signed, next.Changed = &c.Card, c.Signed, now
	next.Key, next.Former = c.Card.Key, m.remembered(c.Former)
	if m.Key != next.Key || m.Card != nil && m.Card.Key != next.Key { // a renewal may have brought the key before its card
		next.Rekeyed = s.Revision
	}
	return Outcome{Member: &next, Events: []Event{{Time: now, Member: &next}}}, nil
}

// Pin records, in an agent, the key of a cluster at the first contact, and its successors.
// Errors: KeyChanged if the cluster has another pinned key that did not sign this one.
type Pin struct {
	Cluster, Key string
	// Fingerprint is that of Key.
	Fingerprint string
	// Former are the keys before Key, oldest first, by verified rotations.
	Former []Former
	// Endorsed is when a trusted root endorsed the key; 0: none did. Inherited says that it
	// endorsed a former key.
	Endorsed  Time
	Inherited bool
	// Connector is the URL on the cluster's card.
	Connector string
	// MaxNamespaces is that of the cluster's card.
	MaxNamespaces int32
	// Legacy says that the broker signs for the cluster. Such a key never replaces the cluster's own key. The
	// first own key replaces it.
	Legacy bool
}

func (c Pin) decide(s *State, now Time) (Outcome, error) {
	m := s.memberOrNew(c.Cluster, now)
	if m.Legacy && !c.Legacy {
		own := *m
		own.Key, own.Former, own.Legacy = "", nil, false
		m = &own
	}
	heir, former := m.leadsTo(c.Key, c.Former), m.remembered(c.Former)
	confirmed := m.confirms(c, heir, former)
	switch {
	case m.gaveUpKey(c.Key), !heir && m.Key != "" && !confirmed, m.Trusted != "" && !confirmed:
		return Outcome{}, keyChanged(c.Cluster)
	case m.Key == c.Key && m.Confirmed == confirmed && m.Endorsed >= c.Endorsed && m.Connector == c.Connector &&
		m.MaxNamespaces == c.MaxNamespaces && m.Legacy == c.Legacy && slices.Equal(m.Former, former):
		return Outcome{Member: m}, nil
	}
	next := *m
	next.Key, next.Former, next.Confirmed, next.Endorsed, next.Changed = c.Key, former, confirmed, max(m.Endorsed,
		c.Endorsed), now
	next.Connector, next.MaxNamespaces, next.Legacy = c.Connector, c.MaxNamespaces, c.Legacy
	return Outcome{Member: &next, Events: []Event{{Time: now, Member: &next}}}, nil
}

// confirms reports whether the admin, or else a root, confirmed the key or one before it. A
// confirmed key with a known successor confirms that successor only, not another one that it may
// have signed since.
func (m *Member) confirms(c Pin, heir bool, former []Former) bool {
	if m.Trusted != "" { // the admin decides, not a root
		return m.Trusted == c.Fingerprint || named(former, m.Trusted) && (heir || !named(m.Former, m.Trusted))
	}
	newer := c.Endorsed > m.Endorsed && (heir || m.Key == "" || !c.Inherited)
	return c.Endorsed > 0 && (newer || heir && c.Endorsed == m.Endorsed)
}

// leadsTo reports whether key is the pinned key or one of its successors.
func (m *Member) leadsTo(key string, former []Former) bool {
	if m.Key == key {
		return true
	}
	return m.Key != "" && !m.gaveUpKey(key) && slices.ContainsFunc(former, func(f Former) bool { return f.Key == m.Key })
}

// Expected returns the fingerprint that the agent's admin named and that the cluster has not shown yet, empty if
// there is none.
func (m *Member) Expected() string {
	if m.Confirmed {
		return ""
	}
	return m.Trusted
}

// Succeeds reports whether the cluster's pinned key succeeded another one, or is it.
func (m *Member) Succeeds(key string) bool { return m.Key == key || m.gaveUpKey(key) }

// gaveUpKey reports whether the cluster gave up a key.
func (m *Member) gaveUpKey(key string) bool {
	return slices.ContainsFunc(m.Former, func(f Former) bool { return f.Key == key })
}

// remembered returns the newest former keys, with those that are known already.
func (m *Member) remembered(former []Former) []Former {
	all := slices.DeleteFunc(slices.Clone(m.Former), func(f Former) bool { return slices.Contains(former, f) })
	all = append(all, former...)
	return all[max(0, len(all)-api.MaxRotations):]
}

// named reports whether one of the keys has a fingerprint.
func named(former []Former, fingerprint string) bool {
	return slices.ContainsFunc(former, func(f Former) bool { return f.Fingerprint == fingerprint })
}

// Trust records which key the agent's admin confirms for a cluster, and the address of its connector. The
// cluster must show that key, even if another one was pinned. The fingerprint of a former key confirms its
// pinned successor. An empty fingerprint withdraws it; the pinned key stays.
type Trust struct{ Cluster, Fingerprint, Address string }

func (c Trust) decide(s *State, now Time) (Outcome, error) {
	if err := cmp.Or(ValidCluster("cluster", c.Cluster), ValidAddress("address", c.Address)); err != nil {
		return Outcome{}, err
	}
	m := s.members[c.Cluster]
	switch {
	case m == nil && c.Fingerprint == "",
		m != nil && m.Trusted == c.Fingerprint && m.Address == c.Address:
		return Outcome{Member: m}, nil
	case m == nil:
		m = &Member{Cluster: c.Cluster, State: api.MemberActive, Joined: now}
	}
	next := *m
	next.Trusted, next.Address, next.Changed = c.Fingerprint, c.Address, now
	if m.Trusted != c.Fingerprint {
		next.Confirmed = named(m.Former, c.Fingerprint)
	}
	return Outcome{Member: &next, Events: []Event{{Time: now, Member: &next}}}, nil
}

// address is what the address of a connector looks like, as the Peer's schema says it, too.
var address = regexp.MustCompile(`^([A-Za-z0-9.-]{1,253}|\[[0-9A-Fa-f:.]{2,45}\]):[1-9][0-9]{0,4}$`)

// ConnectorURL returns where a cluster's connector is, empty if it is not known.
func (m *Member) ConnectorURL() string {
	if m.Address != "" {
		return "https://" + m.Address
	}
	return m.Connector
}

// ValidAddress reports what is wrong with the address of a connector, HOST:PORT. It may be empty.
// Errors: Invalid with the field.
func ValidAddress(field, text string) error {
	if text == "" || address.MatchString(text) {
		return nil
	}
	return api.Invalid(field, "%.80q is not the address of a connector", text).
		Fix("write HOST:PORT, such as bourse.milan.example:7444")
}

func keyChanged(cluster string) error {
	return api.Errorf(api.CodeKeyChanged, "cluster %s shows another key than the one that was pinned", cluster).
		Fix("find out why; if it is right, its admin tells you the new fingerprint: bourse trust %s FINGERPRINT", cluster)
}
