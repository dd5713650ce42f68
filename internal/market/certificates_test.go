package market_test

import (
	"testing"
	"time"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/market"
)

// The broker's own CA certifies keys that the market lists; of any other CA the time of issue
// decides, and the membership.
func TestCertificateEnded(t *testing.T) {
	own := func(key string, issued market.Time) market.Certificate {
		return market.Certificate{Key: key, Issued: issued, Ours: true}
	}
	others := func(issued market.Time) market.Certificate { return market.Certificate{Key: "x", Issued: issued} }
	renew := func(d *testBroker, key string) {
		t.Helper()
		d.must(market.Renew{Cluster: "oslo", Key: "k-oslo", TLSKey: key})
	}
	second := func(n int) market.Time { return noon + market.Time(n*1000) }
	remove := market.SetMember{Cluster: "oslo", State: api.MemberRemoved}
	for name, c := range map[string]struct {
		do   func(*testBroker)
		want map[market.Certificate]bool // ended
	}{
		"joined": {func(d *testBroker) {}, map[market.Certificate]bool{own("tls", noon): false,
			own("another", noon): true, others(noon): false}},
		"of an older journal": {func(d *testBroker) {
			d.apply(market.Event{Time: noon, Member: &market.Member{Cluster: "oslo",
				Key: "k-oslo", State: api.MemberActive, TLSKey: "tls"}})
		},
			map[market.Certificate]bool{own("tls", noon): false, own("renewed", noon): false, others(noon): false}},
		"of an older journal, joined again": {func(d *testBroker) {
			d.apply(market.Event{Time: noon, Member: &market.Member{Cluster: "oslo",
				Key: "k-oslo", State: api.MemberActive, TLSKey: "tls", Joined: second(60)}})
		}, map[market.Certificate]bool{own("tls", second(59)): false, own("of the former membership",
			second(59)): true, own("renewed", second(60)): false}},
		"of an older journal, renewed": {func(d *testBroker) {
			d.apply(market.Event{Time: noon, Member: &market.Member{Cluster: "oslo",
				Key: "k-oslo", State: api.MemberActive, TLSKey: "tls"}})
			renew(d, "next")
		}, map[market.Certificate]bool{own("tls", noon): true, own("next", noon): false}},
		"of an older journal, removed": {func(d *testBroker) {
			d.apply(market.Event{Time: noon, Member: &market.Member{Cluster: "oslo",
				Key: "k-oslo", State: api.MemberActive, TLSKey: "tls"}})
			d.must(remove)
		}, map[market.Certificate]bool{own("tls", noon): true, others(noon): true, others(second(1)): false}},
		"renewed": {func(d *testBroker) { renew(d, "next") },
			map[market.Certificate]bool{own("tls", noon): false, own("next", noon): false}},
		"renewed, after the grace": {func(d *testBroker) { renew(d, "next"); d.pass(market.CertificateGrace) },
			map[market.Certificate]bool{own("tls", noon): true, own("next", noon): false}},
		"a former key again": {func(d *testBroker) {
			renew(d, "next")
			d.pass(market.RenewEvery)
			renew(d, "tls")
			d.pass(market.CertificateGrace)
		}, map[market.Certificate]bool{own("tls", noon): false, own("next", noon): true}},
		"renewed by a successor of the key": {func(d *testBroker) {
			renew(d, "stolen")
			d.must(market.Renew{Cluster: "oslo", Key: "k2", Former: []market.Former{{Key: "k-oslo", Fingerprint: "f"}},
				TLSKey: "next"})
			d.fails(api.CodeKeyChanged, market.Renew{Cluster: "oslo", Key: "k-oslo", TLSKey: "stolen"})
			d.fails(api.CodeTooManyRequests, market.Renew{Cluster: "oslo", Key: "k2", TLSKey: "another"})
		}, map[market.Certificate]bool{own("tls", noon): true, own("stolen", noon): true, own("next", noon): false}},
		"ended by the operator": {func(d *testBroker) { d.must(market.EndCertificates{Cluster: "oslo"}) },
			map[market.Certificate]bool{own("tls", noon): true, others(noon): true, others(second(1)): false}},
		"ended, and renewed": {func(d *testBroker) {
			d.must(market.EndCertificates{Cluster: "oslo"})
			renew(d, "next")
		}, map[market.Certificate]bool{own("tls", noon): true, own("next", noon): false, others(noon): true}},
		"revoked": {func(d *testBroker) { d.must(market.SetMember{Cluster: "oslo", State: api.MemberRevoked}) },
			map[market.Certificate]bool{own("tls", noon): true, others(noon): true}},
		"removed, and joined again": {func(d *testBroker) {
			d.must(remove)
			d.must(market.CreateToken{Token: market.Token{ID: "again",
				Hash: "h", Expires: noon + market.Time(time.Hour.Milliseconds())}})
			d.must(market.Join{TokenID: "again", Hash: "h", Cluster: "oslo", Key: "k2", TLSKey: "tls2"})
		}, map[market.Certificate]bool{own("tls", noon): true, own("tls2",
			noon): false, others(noon): true, others(second(1)): false}},
		"removed, and admitted by a certificate of another CA": {func(d *testBroker) {
			d.must(remove)
			d.must(market.Enroll{Cluster: "oslo", Key: "k2"})
		}, map[market.Certificate]bool{own("tls", noon): true, others(noon): true, others(second(1)): false}},
		"removed by a clock of certificates that is ahead": {func(d *testBroker) {
			d.must(market.SetMember{Cluster: "oslo", State: api.MemberRemoved, At: second(60)})
		}, map[market.Certificate]bool{others(second(60)): true, others(second(61)): false}},
	} {
		t.Run(name, func(t *testing.T) {
			d := newTestBroker(t)
			d.must(market.CreateToken{Token: market.Token{ID: "t", Hash: "h",
				Expires: noon + market.Time(time.Hour.Milliseconds())}})
			d.must(market.Join{TokenID: "t", Hash: "h", Cluster: "oslo", Key: "k-oslo", TLSKey: "tls"})
			c.do(d)
			for certificate, ended := range c.want {
				if (d.now >= d.state.Member("oslo").CertificateEnds(certificate)) != ended {
					t.Errorf("%+v has ended: %v, want %v", certificate, !ended, ended)
				}
			}
		})
	}
}
