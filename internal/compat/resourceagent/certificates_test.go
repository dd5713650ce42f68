package resourceagent_test

import (
	"crypto/x509"
	"net/http"
	"testing"
	"time"

	"github.com/bourse-dev/bourse/api"
)

// An agent of the prototypes that was removed needs a certificate that was issued since: the one
// that it had, or lost, asks for nothing.
func TestARemovedAgentNeedsANewCertificate(t *testing.T) {
	w := newTestFederation(t)
	w.approved("cluster-1")
	advertises := func(c *http.Client) int {
		status, _ := w.call(c, "POST", "/api/v1/advertisements", advert("cluster-1", "8", "8"))
		return status
	}
	former := w.agent("cluster-1")
	if status := advertises(former); status != http.StatusOK {
		t.Fatalf("before: %d", status)
	}
	if _, err := w.Operator.SetMember(t.Context(), "cluster-1", "remove"); err != nil {
		t.Fatal(err)
	}
	if status := advertises(former); status != http.StatusForbidden {
		t.Errorf("after it was removed: %d", status)
	}
	removed := w.Exchange.View().Listing("cluster-1").Member
	if removed.State != api.MemberRemoved {
		t.Fatalf("its old certificate made it %s", removed.State)
	}
	from := removed.CertificatesFrom.Go()
	time.Sleep(time.Until(from)) // until the second after, in which the next is issued
	next := w.showing(w.theirs.Issue(t, "cluster-1", func(c *x509.Certificate) { c.NotBefore = from }))
	if status := advertises(next); status != http.StatusForbidden {
		t.Errorf("with another one it asks: %d", status)
	}
	w.approve("cluster-1")
	if status := advertises(next); status != http.StatusOK {
		t.Errorf("approved: %d", status)
	}
	if status := advertises(former); status != http.StatusUnauthorized {
		t.Errorf("the former one: %d", status)
	}
}
