// Package trust decides which keys of other clusters an agent believes: it opens their signed cards
// and pins their keys in the agent's own market, at first contact.
//
// A card is signed by the key that it shows, so anyone can make one. It is believable only because
// the same key was pinned before. At first contact, the agent believes the broker that relays the card
// (trust on first use). Any later change is KeyChanged, unless the pinned key signed its successor
// ([Rotate]). An admin who does not want to trust the broker pins the key of a cluster
// ([market.Trust]), and can require that for all clusters ([Demand]).
package trust

import (
	"cmp"
	"context"
	"encoding/base64"
	"slices"
	"strings"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/exchange"
	"github.com/bourse-dev/bourse/internal/identity"
	"github.com/bourse-dev/bourse/internal/identity/clusterkey"
	"github.com/bourse-dev/bourse/internal/market"
)

// Demand is what this cluster's admin requires of other clusters' keys. The zero value requires nothing.
type Demand struct {
	// Pinned reports whether the admin must have confirmed a key. Nil: never.
	Pinned func() bool
	// Legacy reports whether to believe a key that the broker holds for a cluster without one. Nil: never.
	Legacy func() bool
	// Roots are the keys whose endorsements count as a confirmation.
	Roots []clusterkey.PublicKey
	// Met is called for each card, with the error if it is not believed. May be nil.
	Met func(cluster string, shown clusterkey.PublicKey, err error)
}

// Meet opens the card of a cluster and pins its key, or finds it pinned.
// Errors: BadSignature for a card that is not valid or not of that cluster; KeyChanged; KeyUnconfirmed.
func (d Demand) Meet(ctx context.Context, m *exchange.Exchange,
	signed, cluster string) (*api.Card, clusterkey.PublicKey, error) {
	card, key, err := open(signed, cluster)
	if err != nil {
		return nil, key, err
	}
	if err = d.checkLegacy(card); err == nil {
		var out market.Outcome
		out, err = m.Do(ctx, d.pin(card, key, m.Now()))
		if err == nil {
			err = d.checkConfirmed(out.Member, key)
		}
	}
	if d.Met != nil {
		d.Met(cluster, key, err)
	}
	return card, key, err
}

// Check returns what Meet would, but pins nothing and calls no Met.
func (d Demand) Check(ctx context.Context, m *exchange.Exchange, signed, cluster string) (*api.Card, error) {
	card, key, err := open(signed, cluster)
	if err != nil {
		return nil, err
	}
	if err := d.checkLegacy(card); err != nil {
		return card, err
	}
	read := m.Read(ctx, func(s *market.State) {
		var out market.Outcome
		if out, err = market.Decide(s, d.pin(card, key, m.Now()), m.Now()); err == nil {
			err = d.checkConfirmed(out.Member, key)
		}
	})
	return card, cmp.Or(read, err)
}

// open opens the card of a cluster. Errors: BadSignature.
func open(signed, cluster string) (*api.Card, clusterkey.PublicKey, error) {
	card, key, err := Open(signed)
	if err == nil && card.Cluster != cluster {
		err = api.Errorf(api.CodeBadSignature, "the card is of cluster %.80q, not of %s", card.Cluster, cluster)
	}
	return card, key, err
}

// checkLegacy returns an error for a card that the broker signed, unless the admin allows such. Errors:
// KeyUnconfirmed.
func (d Demand) checkLegacy(card *api.Card) error {
	if !card.Legacy || d.Legacy != nil && d.Legacy() {
		return nil
	}
	return api.Errorf(api.CodeKeyUnconfirmed,
		"cluster %s has no key: its agent is a prototype's, and the broker signs for it", card.Cluster).
		Fix("to accept what the broker signs for it, set trust: legacy in the SharingPolicy")
}

// checkConfirmed returns an error for a key that nobody confirmed, if the admin demands that. Errors:
// KeyUnconfirmed.
func (d Demand) checkConfirmed(known *market.Member, key clusterkey.PublicKey) error {
	if d.Pinned == nil || !d.Pinned() || known.Confirmed {
		return nil
	}
	return api.Errorf(api.CodeKeyUnconfirmed, "nobody has confirmed that cluster %s has the key %s",
		known.Cluster, key.Fingerprint()).
		Fix("compare it with what `bourse status` says there, then: bourse trust %s %s", known.Cluster, key.Fingerprint())
}

// pin returns the command that pins the key of a card.
func (d Demand) pin(card *api.Card, key clusterkey.PublicKey, now market.Time) market.Pin {
	former := Former(card.Cluster, key, card.Rotations)
	endorsed, inherited := d.endorsed(card, key, former, now)
	return market.Pin{
		Cluster: card.Cluster, Key: card.Key, Fingerprint: key.Fingerprint().String(),
		Former: former, Endorsed: endorsed, Inherited: inherited, Connector: card.Properties.Connector,
		MaxNamespaces: card.MaxNamespaces, Legacy: card.Legacy,
	}
}

// endorsed returns the time at which one of the roots endorsed a card's key or, inherited, a key that
// it succeeded; 0 if none did, or the endorsement has ended.
func (d Demand) endorsed(card *api.Card, key clusterkey.PublicKey,
	former []market.Former, now market.Time) (at market.Time, inherited bool) {
	for _, root := range d.Roots {
		var e api.Endorsement
		if card.Endorsement == "" || clusterkey.Verify(card.Endorsement, api.DocumentEndorsement, root, &e) != nil {
			continue
		}
		own := e.Fingerprint == key.Fingerprint().String()
		inherited := slices.ContainsFunc(former, func(f market.Former) bool { return f.Fingerprint == e.Fingerprint })
		if e.Cluster == card.Cluster && (own || inherited) && now.Go().Before(e.Expires.Time) {
			return market.At(e.Issued.Time), inherited
		}
	}
	return 0, false
}

// Open verifies that a card is signed by the key that it shows. Errors: BadSignature.
func Open(signed string) (*api.Card, clusterkey.PublicKey, error) {
	key, _, err := shown(signed)
	if err != nil {
		return nil, key, api.Errorf(api.CodeBadSignature, "card: %s", err)
	}
	var card api.Card
	if err := clusterkey.Verify(signed, api.DocumentCard, key, &card); err != nil {
		return nil, key, api.Errorf(api.CodeBadSignature, "card: %s", err)
	}
	if err := market.CheckShown(&card); err != nil {
		return nil, key, api.Errorf(api.CodeBadSignature, "card: %s", err)
	}
	return &card, key, nil
}

// shown reads, unverified, the key that a card shows, and how many namespaces.
func shown(signed string) (key clusterkey.PublicKey, namespaces int32, err error) {
	var claimed struct {
		Key           string `json:"key"`
		MaxNamespaces int32  `json:"maxNamespaces"`
	}
	if err := unverified(signed, &claimed); err != nil {
		return clusterkey.PublicKey{}, 0, err
	}
	key, err = clusterkey.ParsePublicKey(claimed.Key)
	return key, claimed.MaxNamespaces, err
}

// unverified reads what a document claims, to find the key with which to verify it.
func unverified(signed string, into any) error {
	if _, err := clusterkey.Peek(signed); err != nil { // also bounds the size
		return err
	}
	_, rest, _ := strings.Cut(signed, ".")
	encoded, _, _ := strings.Cut(rest, ".")
	payload, err := base64.RawURLEncoding.DecodeString(encoded)
	if err != nil {
		return err
	}
	return clusterkey.Read(payload, into)
}

// Key returns the pinned key of a cluster. Errors: NotFound.
func Key(ctx context.Context, m *exchange.Exchange, cluster string) (clusterkey.PublicKey, error) {
	keys, err := Keys(ctx, m, cluster)
	if err != nil {
		return clusterkey.PublicKey{}, err
	}
	return keys[0], nil
}

// Keys returns the pinned key of a cluster, and then the keys that it succeeded, newest first.
// Errors: NotFound.
func Keys(ctx context.Context, m *exchange.Exchange, cluster string) ([]clusterkey.PublicKey, error) {
	var texts []string
	err := m.Read(ctx, func(s *market.State) {
		member := s.Member(cluster)
		if member == nil || member.Key == "" {
			return
		}
		texts = append(texts, member.Key)
		for _, f := range slices.Backward(member.Former) {
			texts = append(texts, f.Key)
		}
	})
	if err == nil && len(texts) == 0 {
		err = api.Errorf(api.CodeNotFound, "no key of cluster %s is pinned", cluster)
	}
	var keys []clusterkey.PublicKey
	for _, text := range texts {
		key, err := clusterkey.ParsePublicKey(text)
		if err != nil {
			return nil, err
		}
		keys = append(keys, key)
	}
	return keys, err
}

// KnownKeys returns the key of another cluster: the pinned one or, until the cluster has shown it, the one that the
// admin named.
func KnownKeys(ctx context.Context, m *exchange.Exchange) clusterkey.Known {
	return func(cluster string) (fingerprint identity.Fingerprint) {
		_ = m.Read(ctx, func(s *market.State) {
			member := s.Member(cluster)
			switch {
			case member == nil:
			case member.Expected() != "":
				fingerprint, _ = identity.ParseFingerprint(member.Expected())
			case member.Key != "":
				if key, err := clusterkey.ParsePublicKey(member.Key); err == nil {
					fingerprint = key.Fingerprint()
				}
			}
		})
		return fingerprint
	}
}

// Signer returns the cluster with the pinned key that a document names as its signer, and that key.
// The caller must verify the document with it. Errors: BadSignature.
func Signer(ctx context.Context, m *exchange.Exchange, document string) (cluster string,
	key clusterkey.PublicKey, err error) {
	header, err := clusterkey.Peek(document)
	if err != nil {
		return "", key, api.Errorf(api.CodeBadSignature, "%s", err)
	}
	var members []*market.Member
	if err := m.Read(ctx, func(s *market.State) { members = s.Members() }); err != nil {
		return "", key, err
	}
	for _, member := range members {
		if key, err := clusterkey.ParsePublicKey(member.Key); err == nil && key.Fingerprint() == header.Key {
			return member.Cluster, key, nil
		}
	}
	return "", key, api.Errorf(api.CodeBadSignature, "no pinned key has the fingerprint %s", header.Key)
}

// EndSigned reports whether a document is the end of a reservation that the party signed which it names, and
// returns it. parties are the keys by cluster. The end must name the assignment in force, or that of the
// pending change. An end of an earlier reservation with the same ID ends nothing. A consumer speaks for itself: what
// it says that its provider did is a release.
func EndSigned(document string, r *market.Reservation, parties map[string][]clusterkey.PublicKey) (e api.End,
	signed bool) {
	for cluster, keys := range parties {
		for _, key := range keys {
			e = api.End{}
			if clusterkey.Verify(document, api.DocumentEnd, key, &e) != nil || e.By != cluster || e.Reservation != r.ID ||
				!Names(e.Assignment, r) {
				continue
			}
			e.Reason = Reason(e.Reason)
			if cluster == r.Consumer && (e.Reason == api.ReasonRevokedByProvider || e.Reason == api.ReasonReclaimed) {
				e.Reason = api.ReasonReleased
			}
			return e, true
		}
	}
	return api.End{}, false
}

// Names reports whether a digest is that of the assignment in force of a reservation, or of its change.
func Names(digest string, r *market.Reservation) bool {
	current := func(assignment string) bool {
		return assignment != "" && digest == clusterkey.Digest(assignment).String()
	}
	return current(r.Assignment) || r.Change != nil && current(r.Change.Assignment)
}

// NamesNothing reports whether a verified end names no assignment, as those made before 2026-11-23.
func NamesNothing(end string) bool {
	var e struct {
		Assignment string `json:"assignment"`
	}
	return end != "" && unverified(end, &e) == nil && e.Assignment == ""
}

// Claimed reads what a document claims, to find the key with which to verify it. Errors: BadSignature.
func Claimed(document string, into any) error {
	if err := unverified(document, into); err != nil {
		return api.Errorf(api.CodeBadSignature, "not a signed document: %s", err)
	}
	return nil
}
