package market

import (
	"cmp"
	"math"
	"time"

	"github.com/bourse-dev/bourse/api"
)

// A certificate is good only in the membership in which it was issued, and only until the next one
// takes its place. The market decides that by two facts: the TLS keys that it knows of, for
// certificates of the broker's own CA, and the time of issue, for all others.
const (
	// CertificateGrace is how long a certificate is good beside the next one: the agent stores and
	// uses the new one meanwhile.
	CertificateGrace = 5 * time.Minute
	// RenewEvery is how often one member may renew: each renewal is an event in the journal.
	RenewEvery = 10 * time.Second
	// maxTLSKeys bounds the former keys that are good beside the newest.
	maxTLSKeys = 4
)

// TLSKey is a key whose certificate is good.
type TLSKey struct {
	// Key is the fingerprint of the public key.
	Key string `json:"key"`
	// Since is when the broker issued the first certificate for it.
	Since Time `json:"since,omitempty"`
	// Ends is when its certificate ends because there is a newer one. 0: there is none.
	Ends Time `json:"ends,omitempty"`
}

// Certificate is what a caller shows in TLS.
type Certificate struct {
	// Key is the fingerprint of its public key.
	Key string
	// Issued is when it was issued, to the second.
	Issued Time
	// Ours reports whether the broker's own CA issued it for a member.
	Ours bool
}

// Never is the end of a certificate that is good until its date.
const Never Time = math.MaxInt64

// CertificateEnds returns when a certificate, valid by its dates, is no longer good: 0, a time, or [Never].
// A member without a list of keys may use the certificate of its join, and any other that was issued in its
// membership, until it renews.
func (m *Member) CertificateEnds(c Certificate) (ends Time) {
	if c.Ours && len(m.TLSKeys) > 0 {
		for _, k := range m.TLSKeys {
			if k.Key == c.Key {
				ends = max(ends, cmp.Or(k.Ends, Never))
			}
		}
		return ends
	}
	if c.Ours && c.Key != m.TLSKey && c.Issued < m.Joined { // a renewed one is half a life younger than the membership
		return 0
	}
	if c.Issued < m.CertificatesFrom {
		return 0
	}
	return Never
}

// endCertificates ends all certificates that were issued until then.
func (m *Member) endCertificates(until Time) {
	m.TLSKeys, m.CertificatesFrom = nil, max(m.CertificatesFrom, nextSecond(until))
}

// Renew notes that the broker issues another certificate to a member that proved its cluster key.
// It ends the former certificates after [CertificateGrace]. A repeat for the same TLS key changes
// nothing. A successor of the member's key becomes the member's key. It need not wait, and the
// former certificates end at once: a cluster gives up a key that may be stolen. Errors: Suspended
// for a cluster that is no member; KeyChanged for another cluster key; TooManyRequests.
type Renew struct {
	Cluster string
	// Key is the cluster key that signed the request, Former those that it succeeded by verified signatures.
	Key    string
	Former []Former
	// TLSKey is the fingerprint of the key that the certificate is for.
	TLSKey string
}

// Check says why the key that signed may not renew for a cluster that is known as m, nil for one that is not
// known. Errors: Suspended, KeyChanged.
func (c Renew) Check(m *Member) error {
	switch {
	case m == nil || m.State == api.MemberRemoved || m.State == api.MemberRevoked:
		return api.Errorf(api.CodeSuspended, "cluster %.80q may not renew: it is no member", c.Cluster).
			Fix("ask the operator to remove the member and for a new token, and join again: docs/lend.md, Join again")
	case m.Legacy || !m.leadsTo(c.Key, c.Former):
		return api.Errorf(api.CodeKeyChanged, "cluster %s is known by another key than the one that signed the renewal",
			c.Cluster).
			Fix("restore the cluster's identity, or ask the operator to remove the member and for a new token")
	}
	return nil
}

func (c Renew) decide(s *State, now Time) (Outcome, error) {
	m := s.members[c.Cluster]
	if err := c.Check(m); err != nil {
		return Outcome{}, err
	}
	next := *m
	if m.Key != c.Key {
		next.Key, next.Former, next.Rekeyed, next.Changed = c.Key, m.remembered(c.Former), s.Revision, now
		next.TLSKeys = []TLSKey{{Key: c.TLSKey, Since: now}}
		return Outcome{Member: &next, Events: []Event{{Time: now, Member: &next}}}, nil
	}
	if n := len(m.TLSKeys); n > 0 {
		switch newest := m.TLSKeys[n-1]; {
		case newest.Key == c.TLSKey:
			return Outcome{Member: m}, nil
		case now < newest.Since.plus(RenewEvery):
			return Outcome{}, api.Errorf(api.CodeTooManyRequests, "cluster %s renewed its certificate a moment ago",
				c.Cluster).Fix("wait %s", RenewEvery)
		}
	}
	next.TLSKeys = append(m.formerTLSKeys(now), TLSKey{Key: c.TLSKey, Since: now})
	return Outcome{Member: &next, Events: []Event{{Time: now, Member: &next}}}, nil
}

// formerTLSKeys returns the keys that stay good for a while beside a next one.
func (m *Member) formerTLSKeys(now Time) (keys []TLSKey) {
	for _, k := range m.TLSKeys {
		if k.Ends == 0 {
			k.Ends = now.plus(CertificateGrace)
		}
		if now < k.Ends {
			keys = append(keys, k)
		}
	}
	return keys[max(0, len(keys)-maxTLSKeys):]
}

// EndCertificates ends all certificates of a member, as an operator does when one was stolen. Its
// agent renews by the cluster key. A token of the Kubernetes transport is none. Errors: NotFound;
// Conflict for a cluster that is no member.
type EndCertificates struct {
	Cluster string
	// At is the time by the clock of certificates.
	At Time
}

func (c EndCertificates) decide(s *State, now Time) (Outcome, error) {
	m := s.members[c.Cluster]
	switch {
	case m == nil:
		return Outcome{}, api.Errorf(api.CodeNotFound, "no member %.80q", c.Cluster).FixBy("see", "bourse", "broker", "members")
	case m.State == api.MemberRemoved || m.State == api.MemberRevoked:
		return Outcome{}, api.Errorf(api.CodeConflict, "member %s is %s: its certificates have ended", c.Cluster, m.State)
	}
	next := *m
	next.endCertificates(cmp.Or(c.At, now))
	return Outcome{Member: &next, Events: []Event{{Time: now, Member: &next}}}, nil
}

// Operators says which certificates of operators are good.
type Operators struct {
	// CertificatesFrom ends all that were issued before.
	CertificatesFrom Time `json:"certificatesFrom"`
}

// CertificateEnded reports whether an operator's certificate that is valid by its dates is no longer good.
func (o *Operators) CertificateEnded(c Certificate) bool {
	return o != nil && c.Issued < o.CertificatesFrom
}

// EndOperators ends all certificates of operators that were issued until now.
type EndOperators struct {
	// At is the time by the clock of certificates.
	At Time
}

func (c EndOperators) decide(s *State, now Time) (Outcome, error) {
	next := Operators{CertificatesFrom: nextSecond(cmp.Or(c.At, now))}
	if s.operators != nil {
		next.CertificatesFrom = max(next.CertificatesFrom,
			nextSecond(s.operators.CertificatesFrom)) // one may have been issued for then
	}
	return Outcome{Operators: &next, Events: []Event{{Time: now, Operators: &next}}}, nil
}

// nextSecond returns the next full second after t. Certificates have their time of issue in full seconds.
func nextSecond(t Time) Time {
	const second = Time(time.Second / time.Millisecond)
	return (t/second + 1) * second
}
