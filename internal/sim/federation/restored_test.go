package federation_test

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kube "sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/broker"
)

// What a seller put on sale after the backup is on sale again at the broker that is made of it.
func TestOnSaleAgainAtARestoredBroker(t *testing.T) {
	t.Parallel()
	f := newFair(t)
	var data bytes.Buffer
	if err := f.Operator.Backup(t.Context(), &data); err != nil {
		t.Fatal(err)
	}
	backup, _, err := broker.DecodeBackup(data.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	later := &api.Offer{ObjectMeta: metav1.ObjectMeta{Namespace: api.Namespace, Name: "later"}, Spec: webOffer("0.20")}
	if err := f.milan.Objects.Create(t.Context(), later); err != nil {
		t.Fatal(err)
	}
	onSale := func() bool {
		found, err := f.Operator.Catalog(t.Context(), api.CatalogQuery{})
		return err == nil && len(found) == 2
	}
	reason := func() string {
		now := &api.Offer{}
		if err := f.milan.Objects.Get(t.Context(), kube.ObjectKeyFromObject(later), now); err != nil {
			t.Fatal(err)
		}
		if c := meta.FindStatusCondition(now.Status.Conditions, api.ConditionReady); c != nil {
			return c.Reason
		}
		return ""
	}
	f.until("both offers are on sale", func() bool { return onSale() && reason() == "OnSale" })

	f.Broker.Stop()
	dir := filepath.Join(f.Dir, "broker")
	if err := os.Rename(dir, filepath.Join(f.Dir, "lost")); err != nil {
		t.Fatal(err)
	}
	if _, err := backup.Restore(t.Context(), dir, must(broker.OpenStore(dir, ""))(t)); err != nil {
		t.Fatal(err)
	}
	if err := f.Broker.Start(); err != nil {
		t.Fatal(err)
	}
	f.until("both offers are on sale again", func() bool {
		if now := reason(); now == api.ReasonOffSaleAtBroker {
			t.Fatalf("the offer that the backup lacks is %s", now)
		}
		return onSale()
	})
}
