package server

import (
	"fmt"
	"net/http"
	"net/url"
	"testing"
	"time"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/identity/tlsid"
)

// A flood of strangers' addresses renews nobody's limit: neither that of an address that has used
// it up, nor a member's, nor that of those who come new. An IPv6 stranger is counted by its /64.
func TestAFloodOfAddressesRenewsNoLimit(t *testing.T) {
	now := time.Now()                                             // time stands still: after 0.4 s an address that called twice may be forgotten
	l := &limits{rate: 500, now: func() time.Time { return now }} // a stranger's burst is 10
	from := func(address string) *http.Request {
		return &http.Request{RemoteAddr: address + ":1234", URL: &url.URL{Path: "/openapi.json"}}
	}
	spend := func(c Caller, address string) (allowed int) {
		for l.allow(c, from(address)) && allowed < 5000 {
			allowed++
		}
		return allowed
	}
	rome := Caller{Role: tlsid.RoleCluster, Name: "rome"}
	if n := spend(rome, "192.0.2.1"); n < 1000 || n > 2000 {
		t.Fatalf("a member is allowed %d calls at once", n)
	}
	if n := spend(Caller{}, "192.0.2.1"); n != 10 {
		t.Fatalf("a stranger is allowed %d calls at once, want 10", n)
	}
	if n := spend(Caller{}, "[2001:db8::1]"); n != 10 {
		t.Fatalf("a stranger by IPv6 is allowed %d calls at once, want 10", n)
	}
	allowed := 0
	for i := range 2 * maxCallers {
		for range 2 {
			if l.allow(Caller{}, from(fmt.Sprintf("[2001:db8:%x:%x::1]", i>>16+1, i&0xffff))) {
				allowed++
			}
		}
	}
	if most := 2*maxCallers + 10; allowed > most {
		t.Errorf("of %d calls from %d networks %d are allowed, want %d at most", 4*maxCallers, 2*maxCallers, allowed, most)
	}
	for what, address := range map[string]string{"the first stranger": "192.0.2.1", "its IPv6 neighbour": "[2001:db8::2:3]"} {
		if n := spend(Caller{}, address); n > 0 {
			t.Errorf("%s is allowed %d calls again, want none", what, n)
		}
	}
	if n := len(l.strangers.by); n > maxCallers || l.strangers.order.Len() != n {
		t.Errorf("%d callers are kept", n)
	}
	if len(l.members.by) != 1 {
		t.Errorf("%d members are kept", len(l.members.by))
	}
}

// Who is forgotten is who has called longest ago, once its limit is whole again.
func TestTheOldestCallerIsForgotten(t *testing.T) {
	var x callers
	now := time.Now()
	for i := range maxCallers {
		x.limiter(fmt.Sprint(i), 5, now).AllowN(now, 10)
	}
	if x.limiter("new", 5, now.Add(time.Second)) != x.others || x.by["0"] == nil {
		t.Error("a caller is forgotten that has used up its limit")
	}
	later := now.Add(3 * time.Second)
	x.limiter("0", 5, later)
	if x.limiter("new", 5, later) == x.others || x.by["1"] != nil || x.by["0"] == nil || len(x.by) != maxCallers {
		t.Error("not the oldest is forgotten")
	}
}

// The relay is bounded in bytes. Clusters that send much do not keep others from sending.
func TestRelayIsShared(t *testing.T) {
	var m relay
	later := time.Now().Add(time.Minute)
	large := make([]byte, maxMessage)
	write := func(from, to string, n int) error {
		return m.post(route{from, to, from}, string(large[:n-8])+fmt.Sprintf("%08d", m.number), later)
	}
	refused := 0
	for i := range 100 {
		for n := range 60 {
			if err := write(fmt.Sprint("hostile-", i), fmt.Sprint("friend-", n), maxMessage); err != nil {
				refused++
				if api.CodeOf(err) != api.CodeUnavailable {
					t.Fatal(err)
				}
			}
		}
	}
	if refused == 0 || m.bytes > maxRelayed {
		t.Fatalf("%d messages of 6000 are refused, %d bytes are kept", refused, m.bytes)
	}
	seen := uint64(0)
	read := func() (documents []string) {
		documents, seen = m.after(seen, "milan")
		return documents
	}
	for i := range 50 {
		if err := write(fmt.Sprint("honest-", i), "milan", 3000); err != nil {
			t.Fatalf("an honest cluster cannot write: %v", err)
		}
	}
	if got := read(); len(got) != 50 {
		t.Errorf("%d of 50 honest messages arrive", len(got))
	}
	if got := read(); len(got) != 0 {
		t.Errorf("%d messages come twice", len(got))
	}
	if err := write("honest-0", "milan", 3000); err != nil {
		t.Errorf("it cannot write again: %v", err)
	}
	if got := read(); len(got) != 1 {
		t.Errorf("its next message arrives %d times", len(got))
	}
	bytes, messages := 0, 0
	for _, to := range m.messages {
		for _, l := range to {
			bytes, messages = bytes+l.bytes(), messages+1
		}
	}
	held := 0
	for _, s := range m.senders {
		held += s.bytes
		messages -= len(s.messages)
	}
	if bytes != m.bytes || held != bytes || messages != 0 || bytes > maxRelayed {
		t.Errorf("%d bytes are kept, %d of senders, %d are counted", bytes, held, m.bytes)
	}
	m.swept = time.Time{}
	m.dropExpired(time.Now().Add(time.Hour))
	if m.bytes != 0 || len(m.messages) != 0 || len(m.senders) != 0 {
		t.Errorf("%d bytes of %d senders have expired and are kept", m.bytes, len(m.senders))
	}
}
