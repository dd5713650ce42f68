package ui

import (
	"cmp"
	"context"
	"net/http"
	"strings"

	"github.com/a-h/templ"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/client"
	"github.com/bourse-dev/bourse/internal/ui/pages"
)

var brokerActs = map[string]act{"add": (*UI).addBroker, "enable": (*UI).enableBroker, "disable": (*UI).disableBroker}

// brokers reads how the cluster reaches the market.
func (u *UI) brokers(ctx context.Context, _ *http.Request) content {
	var m pages.Market
	var offers []api.Envelope[api.Listing]
	var status api.AgentStatus
	var noBrokers, noOffers, noStatus, noRequests error
	borrows := false
	together(
		func() { m.Brokers, noBrokers = u.source.brokers(ctx) },
		func() { offers, noOffers = u.source.offers(ctx) },
		func() { status, noStatus = u.source.status(ctx) },
		func() {
			noRequests = u.o.Reads.EachRequest(ctx, func(client.RequestStatus) { borrows = true })
		},
	)
	m.Failed = asError(noBrokers)
	m.Git = map[string]string{}
	for _, b := range m.Brokers {
		m.Git[b.ID] = u.o.Reads.GitOf(ctx, &api.Broker{ObjectMeta: metav1.ObjectMeta{Namespace: u.o.Reads.AgentNamespace(ctx), Name: b.ID}})
	}
	m.Offers, m.NoCatalog = len(offers), asError(noOffers)
	for _, l := range offers {
		if t := l.Payload.AsOf; t != nil && (m.CopyOf.IsZero() || t.Time.Before(m.CopyOf)) {
			m.CopyOf = t.Time
		}
	}
	m.Shares, m.Borrows = status.Sharing || noStatus != nil, borrows || noRequests != nil
	m.NotDone = cmp.Or(pages.OnlyLoading(asError(noStatus)), pages.OnlyLoading(asError(noRequests)))
	return content{title: "Brokers", body: func(v pages.View) templ.Component { return pages.Brokers(v, m) }}
}

// addBroker joins a broker, or changes the address of one. The token goes to the API server and nowhere else.
func (u *UI) addBroker(ctx context.Context, r *http.Request) ([]string, string, error) {
	text := func(field string) string { return strings.TrimSpace(r.PostForm.Get(field)) }
	name, token, address := text("broker"), text("join"), text("url")
	if token == "" && address == "" {
		return nil, "", api.Invalid("join", "the form has neither a token nor an address").Fix("ask the operator for a token")
	}
	_, err := u.o.Acts.EditBroker(ctx, name, func(b *api.BrokerSpec) {
		b.Join, b.URL = cmp.Or(token, b.Join), cmp.Or(address, b.URL)
	})
	return []string{"brokers"}, "Broker " + name + " is written. The agent joins it now.", err
}

func (u *UI) enableBroker(ctx context.Context, r *http.Request) ([]string, string, error) {
	return u.switchBroker(ctx, r, false, "is used again.")
}

func (u *UI) disableBroker(ctx context.Context, r *http.Request) ([]string, string, error) {
	return u.switchBroker(ctx, r, true, "is disabled. Reservations that were made there stay.")
}

// switchBroker disables a broker that exists, or enables it.
func (u *UI) switchBroker(ctx context.Context, r *http.Request, disabled bool, done string) ([]string, string, error) {
	name := r.PostForm.Get("broker")
	there, err := u.o.Acts.Brokers(ctx)
	if err != nil {
		return nil, "", err
	}
	for _, b := range there {
		if b.ID == name {
			_, err := u.o.Acts.EditBroker(ctx, name, func(b *api.BrokerSpec) { b.Disabled = disabled })
			return []string{"brokers"}, "Broker " + name + " " + done, err
		}
	}
	return nil, "", api.Errorf(api.CodeNotFound, "this cluster has no broker %.63q", name).FixBy("see", "bourse", "brokers")
}
