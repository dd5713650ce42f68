package federation_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kube "sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/cli"
	"github.com/bourse-dev/bourse/internal/compat/distributedcatalog"
)

// A contract of a plan whose memory was written as ram, by the old interface, is extended as any
// other, and still shown with ram.
func TestExtendAPlanWrittenWithRAM(t *testing.T) {
	t.Parallel()
	f := newFair(t, catalogs)
	rome, milan := clientOf(t, f.rome), clientOf(t, f.milan)
	if answer, status := milan.post("POST", "/api/offers", `{"offerID":"milan_old","offerName":"old","plans":[
		{"planID":"milan_old_small","planCost":0.1,"planCostCurrency":"EUR","planCostPeriod":"hour","planQuantity":1,
		"resources":{"cpu":"1","ram":"2Gi"}}]}`); status != http.StatusOK {
		t.Fatalf("%d %v", status, answer)
	}
	f.until("rome sees it", func() bool { _, err := f.rome.People.Offer(t.Context(), "milan", "old"); return err == nil })
	kubeconfig := f.kubeconfigOf(f.rome)
	bourse := func(args ...string) (end time.Time) {
		t.Helper()
		said := &strings.Builder{}
		if code := cli.Main(append(args, "--kubeconfig", kubeconfig), said, said); code != 0 {
			t.Fatalf("bourse %s: %d %s", strings.Join(args, " "), code, said)
		}
		r := must(f.rome.People.Request(t.Context(), "default", "bought"))(t).Payload.Status
		if r.State != api.Reserved || r.Until == nil {
			t.Fatalf("%+v", r)
		}
		return r.Until.Time
	}
	end := bourse("buy", "milan/old/small", "--for", "2h", "--name", "bought")
	if by := bourse("extend", "bought", "--by", "3h").Sub(end).Round(time.Minute); by != 3*time.Hour {
		t.Errorf("it ends %s later", by)
	}
	var bought []distributedcatalog.ContractDocument
	f.until("rome has the contract", func() bool { // which is written beside the request
		rome.get("/api/contracts", &bought)
		return len(bought) == 1
	})
	if bought[0].Offer.Plans[0].Resources["ram"] != "2Gi" {
		t.Errorf("%+v", bought)
	}
}

// A change beyond the cap of its consumer is refused at once. A change within it is not.
func TestResizeBeyondTheCap(t *testing.T) {
	t.Parallel()
	f := newFair(t)
	caps := func(cpu string) {
		t.Helper()
		must(f.Operator.SetCaps(t.Context(), "rome", api.Caps{Resources: api.Resources{"cpu": resource.MustParse(cpu)}}))(t)
	}
	kubeconfig := f.kubeconfigOf(f.rome)
	bourse := func(want int, says string, args ...string) {
		t.Helper()
		said := &strings.Builder{}
		code := cli.Main(append(args, "--kubeconfig", kubeconfig), said, said)
		if code != want || !strings.Contains(said.String(), says) {
			t.Fatalf("bourse %s: %d %s", strings.Join(args, " "), code, said)
		}
	}
	caps("2")
	bourse(0, "", "reserve", "--cpu", "1", "--memory", "1Gi", "--for", "2h", "--name", "own")
	bourse(5, "CapReached: cluster rome may have 2 cpu", "resize", "own", "--cpu", "4")
	caps("8")
	bourse(0, "", "resize", "own", "--cpu", "5")
}

// A broker that has just started does not refuse to enlarge a reservation only because the provider has not
// advertised again: the change waits, and is made when the provider is back.
func TestResizeRightAfterTheBrokerStarted(t *testing.T) {
	t.Parallel()
	f := newFair(t)
	if _, err := f.rome.People.MakeRequest(t.Context(), api.RequestCreate{Name: "grows", Request: api.Request{
		Target: "milan", Resources: api.Resources{"cpu": resource.MustParse("1")},
	}}); err != nil {
		t.Fatal(err)
	}
	f.becomes(f.rome, "grows", func(now api.ResourceRequestStatus) bool { return now.State == api.Reserved })
	f.StopMember("milan")
	f.Broker.Stop()
	if err := f.Broker.Start(); err != nil {
		t.Fatal(err)
	}
	key := kube.ObjectKey{Namespace: "default", Name: "grows"}
	request := &api.ResourceRequest{}
	if err := f.rome.Objects.Get(t.Context(), key, request); err != nil {
		t.Fatal(err)
	}
	before := request.DeepCopy()
	request.Spec.Resources = api.Resources{"cpu": resource.MustParse("2")}
	if err := f.rome.Objects.Patch(t.Context(), request, kube.MergeFrom(before)); err != nil {
		t.Fatal(err)
	}
	var change *metav1.Condition
	f.becomes(f.rome, "grows", func(now api.ResourceRequestStatus) bool {
		change = meta.FindStatusCondition(now.Conditions, api.ConditionUpToDate)
		return change != nil && change.Status == metav1.ConditionFalse
	})
	f.until("rome asks the broker, which has just started", func() bool {
		return f.brokerState(f.rome, "main") == "Connected"
	})
	f.StartMember("milan")
	f.becomes(f.rome, "grows", func(now api.ResourceRequestStatus) bool {
		change = meta.FindStatusCondition(now.Conditions, api.ConditionUpToDate)
		if change.Reason == string(api.ReasonInsufficient) {
			t.Fatalf("refused: %s", change.Message)
		}
		return change.Status == metav1.ConditionTrue && change.ObservedGeneration == 2
	})
}
