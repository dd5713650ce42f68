package ledger

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	testclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/agent/scheme"
	"github.com/bourse-dev/bourse/internal/journal"
	"github.com/bourse-dev/bourse/internal/market"
	"github.com/bourse-dev/bourse/internal/sim/kubeapi"
)

// An agent ends when its Ledger is older than it was, or is gone, also while it writes nothing.
func TestARestoredCluster(t *testing.T) {
	for name, restore := range map[string]func(c client.Client, older *api.Ledger) error{
		"an older state": func(c client.Client, older *api.Ledger) error {
			var now api.Ledger
			if err := c.Get(t.Context(), client.ObjectKeyFromObject(older), &now); err != nil {
				return err
			}
			older.ResourceVersion = now.ResourceVersion
			return c.Update(t.Context(), older)
		},
		"a state without a Ledger": func(c client.Client, older *api.Ledger) error {
			return c.Delete(t.Context(), &api.Ledger{ObjectMeta: metav1.ObjectMeta{Namespace: older.Namespace,
				Name: older.Name}})
		},
		"nothing is restored": func(client.Client, *api.Ledger) error { return nil },
	} {
		k := kubeapi.New(kubeapi.Options{Types: []kubeapi.Type{{GroupVersion: api.GroupVersion,
			Kind: "Ledger", Resource: "ledgers", Namespaced: true}}})
		c, err := client.New(k.Config(), client.Options{Scheme: scheme.New()})
		if err != nil {
			t.Fatal(err)
		}
		now := testclock.NewFakeClock(time.Now())
		l, err := Open(t.Context(), Options{Client: c, Reader: c, Cluster: "rome",
			Namespace: "default", CheckEvery: time.Minute, Clock: now, Log: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		ended := make(chan error, 1)
		go func() { ended <- l.Run(ctx) }()
		var older api.Ledger
		for _, cluster := range []string{"milan", "oslo"} {
			if _, err := l.Market().Do(ctx, market.Trust{Cluster: cluster,
				Fingerprint: "SHA256:" + "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"}); err != nil {
				t.Fatal(err)
			}
			if cluster == "oslo" {
				break
			}
			if err := c.Get(ctx, client.ObjectKey{Namespace: "default", Name: ObjectName}, &older); err != nil {
				t.Fatal(err)
			}
		}
		if err := restore(c, &older); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		for end := time.Now().Add(30 * time.Second); !now.HasWaiters(); time.Sleep(time.Millisecond) {
			if time.Now().After(end) {
				t.Fatal("it does not look at the Ledger")
			}
		}
		now.Step(time.Minute)
		if name == "nothing is restored" {
			cancel()
			if err := <-ended; err != nil {
				t.Errorf("%s: %v", name, err)
			}
			continue
		}
		if err := <-ended; !refused(err) {
			t.Errorf("%s: it ends with %v", name, err)
		}
	}
}

func refused(err error) bool {
	_, ok := errors.AsType[*journal.RefusedError](err)
	return ok
}

// A command whose events take more than a part of the Ledger keeps nobody else from writing.
func TestARecordOfALedgerIsBounded(t *testing.T) {
	k := kubeapi.New(kubeapi.Options{Types: []kubeapi.Type{{GroupVersion: api.GroupVersion,
		Kind: "Ledger", Resource: "ledgers", Namespaced: true}}})
	c, err := client.New(k.Config(), client.Options{Scheme: scheme.New()})
	if err != nil {
		t.Fatal(err)
	}
	l, err := Open(t.Context(), Options{Client: c, Reader: c, Cluster: "rome", Namespace: "default",
		CheckEvery: time.Minute, Clock: testclock.NewFakeClock(time.Now()), Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- l.Run(ctx) }()
	note := func(id string, bytes int) error {
		_, err := l.Market().Do(ctx, market.Note{Reservation: &market.Reservation{ID: id, Consumer: "rome",
			State: api.Pending, Message: strings.Repeat("x", bytes)}})
		return err
	}
	if err := note("long", recordBytes); api.CodeOf(err) != api.CodeTooLarge {
		t.Errorf("a record of %d bytes: %v", recordBytes, err)
	}
	if err := note("short", recordBytes/2); err != nil {
		t.Errorf("half of that: %v", err)
	}
	var has []*market.Reservation
	if err := l.Market().Read(ctx, func(s *market.State) { has = s.Of("rome", 0) }); err != nil || len(has) != 1 {
		t.Errorf("it has %d records, %v", len(has), err)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
