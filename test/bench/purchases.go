package main

import (
	"context"
	"encoding/json"

	"github.com/bourse-dev/bourse/api"
)

// purchases measures plans that are bought through the broker: Held, and durable before that is
// answered, as requests without a plan are; 64 buyers on connections of their own, each buying of
// one seller after the other, of 100. What is bought names the digest of the offer. In proportion:
// holds without a plan in the same run.
func purchases(ctx context.Context, b *bench) ([]Figure, error) {
	p, members, err := startAlike(ctx, b.orders("purchases"), clusters)
	if err != nil {
		return nil, err
	}
	defer p.stop()
	wishes := make([][]byte, len(members))
	for i, m := range members {
		o, err := signedOffer(m.key, m.cluster, 0, 1, offerOf(i, 0))
		if err != nil {
			return nil, err
		}
		if err := m.broker.PublishOffer(ctx, m.cluster, o.Signed.Name, o.Document); err != nil {
			return nil, err
		}
		wishes[i], err = json.Marshal(api.ReservationCreate{Request: api.Request{
			Purchase: &api.Purchase{Seller: m.cluster, Offer: o.Signed.Name, Plan: "medium", Units: 1, Digest: o.Digest},
		}})
		if err != nil {
			return nil, err
		}
	}
	buy := func(buyer, n int) []byte { // of any but itself
		return wishes[(buyer+1+n%(len(wishes)-1))%len(wishes)]
	}
	var l *load
	disk, err := b.beside(func() (err error) {
		l, err = pressRequests(ctx, b, p, members[:consumers], 0, buy)
		return err
	})
	if err != nil {
		return nil, err
	}
	if l.failed > 0 {
		say("%d of %d purchases were not answered Held, such as: %s", l.failed, l.calls, l.said)
	}
	plainly, err := pressHolds(ctx, b, p, members[:consumers], 0)
	if err != nil {
		return nil, err
	}
	return []Figure{
		atLeast(3_000, "purchases through the broker, durable", float64(l.calls-l.failed)/l.took.Seconds(),
			"/s").to("holds without a plan", plainly.rate()),
		atMost(0, "purchases that were refused", float64(l.failed), ""),
		plain("purchases, server alone", l.ratePerCore(), "/s and core"),
		plain("purchases, share of the cores that the server had", l.serverShare(), "cores"),
		plain("purchases, p99 of one fdatasync meanwhile", disk, "ms"),
	}, nil
}
