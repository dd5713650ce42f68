package federation_test

import (
	"net"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/bourse-dev/bourse/api"
)

// A broker, its members and a seller's connector have addresses of IPv6 only. Members join and reserve, and a buyer
// calls the connector, by the address on the card and by the one that its admin names.
func TestOnlyIPv6(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp6", "[::1]:0")
	if err != nil {
		t.Skip("this machine has no loopback of IPv6: ", err)
	}
	_ = l.Close()
	f := newFair(t, func(f *fair) { f.host = "::1" })
	for _, url := range []string{f.URL, "https://" + f.milan.Address} {
		if !strings.HasPrefix(url, "https://[::1]:") {
			t.Errorf("the URL is %s", url)
		}
	}
	f.makes(f.rome, "brokered", api.Request{Resources: api.Resources{"cpu": resource.MustParse("1")}}, api.Reserved)
	f.buysDirectly("direct", isReserved)
	must(f.oslo.People.AddPeer(t.Context(), "milan", f.fingerprint(f.milan), f.milan.Address))(t)
	must(f.milan.People.AddPeer(t.Context(), "oslo", f.fingerprint(f.oslo), ""))(t)
	f.Broker.Stop()
	f.until("oslo has met milan", func() bool { return f.trusts(f.oslo, "milan").Reason == "Confirmed" })
	if got := f.buysAt(f.oslo, "", "without", 1); got.State != api.Reserved {
		t.Errorf("without the broker: %+v", got)
	}
}
