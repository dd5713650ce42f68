package cli

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kube "sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/sim"
	"github.com/bourse-dev/bourse/internal/sim/federation"
	"github.com/bourse-dev/bourse/internal/sim/kubeapi"
)

// federationCommands act on the federation of a script, which unlike that of the demo can lose its
// broker, and get older.
var federationCommands = map[string]func(*testscript.TestScript, bool, []string){
	"federation": startFederation, "as": actAs, "broker": stopOrStartBroker, "pass": passTime, "uses": usesPods, "capture": capture,
	"waits": waitingPods, "apply": applyPool, "sells": sellOnly,
}

// played is the federation of a script, once that has started one.
type played struct{ *federation.Federation }

func playedIn(ts *testscript.TestScript) *played { return ts.Value("federation").(*played) }

// federation starts one: rome borrows, milan sells and has a connector, paris lends and has none,
// oslo does nothing. The script acts for rome's people. $MILAN_ADDRESS is that of the connector. CLUSTER.kubeconfig has
// the context CLUSTER, of an admin, and CLUSTER-ann, of a user of namespace team.
func startFederation(ts *testscript.TestScript, _ bool, _ []string) {
	dir := ts.MkAbs("federation")
	ts.Check(os.Mkdir(dir, 0o700))
	shared := &api.Sharing{Pools: []api.PoolPolicy{{Name: api.GeneralPool}}}
	plan := func(name, amount, currency string) api.Plan {
		return api.Plan{Name: name, Resources: demoResources("cpu", "2", "memory", "4Gi"),
			Quantity: 3, Units: &api.Units{Min: 1, Max: 3},
			Price: &api.Price{Amount: amount, Currency: currency, Period: api.PeriodDay}}
	}
	ctx, stop := context.WithCancel(context.Background())
	f, err := federation.Start(ctx, dir, slog.New(slog.DiscardHandler),
		&federation.Member{Options: sim.Options{Name: "rome", Nodes: 1}},
		&federation.Member{Options: sim.Options{Name: "milan", Nodes: 2, CPU: 8, Memory: 32},
			Sharing: shared, Connector: true, Offers: map[string]api.OfferSpec{
				"web": {Type: "compute", Plans: []api.Plan{plan("small", "0.11", "EUR")}},
				"odd": {Type: "compute", Plans: []api.Plan{plan("yen", "100", "JPY"), plan("free", "0", "EUR")}},
			}},
		&federation.Member{Options: sim.Options{Name: "paris", Nodes: 1}, Sharing: shared},
		&federation.Member{Options: sim.Options{Name: "oslo", Nodes: 1}},
	)
	if err != nil {
		stop()
		ts.Fatalf("%v", err)
	}
	ts.Defer(func() { stop(); _ = f.Stop() })
	for _, m := range f.Members {
		eventually(ts, "the agent of "+m.Name+" listens", func() error { _, err := m.People.Status(ctx); return err })
	}
	for _, m := range f.Members {
		ann := kubeapi.User{Name: "ann", Namespace: "team"}
		ts.Check(f.WriteKubeconfig(ts.MkAbs(m.Name+".kubeconfig"), m, ann))
	}
	playedIn(ts).Federation = f
	ts.Setenv("MILAN_ADDRESS", f.Members["milan"].Address)
	actAs(ts, false, []string{"rome"})
}

// eventually asks until there is no error.
func eventually(ts *testscript.TestScript, what string, ask func() error) {
	for deadline := time.Now().Add(90 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		err := ask()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			ts.Fatalf("never: %s: %v", what, err)
		}
	}
}

// as CLUSTER acts as the admin of another cluster. $SOCKET is that of its agent.
func actAs(ts *testscript.TestScript, _ bool, args []string) {
	ts.Setenv("KUBECONFIG", ts.MkAbs(args[0]+".kubeconfig"))
	ts.Setenv("SOCKET", "unix://"+playedIn(ts).Members[args[0]].Socket)
}

// broker stop, broker start.
func stopOrStartBroker(ts *testscript.TestScript, _ bool, args []string) {
	if args[0] == "stop" {
		playedIn(ts).Broker.Stop()
		return
	}
	ts.Check(playedIn(ts).Broker.Start())
}

// pass DURATION lets time pass for all of the federation. What agents do each hour they do when they start again.
func passTime(ts *testscript.TestScript, _ bool, args []string) {
	d, err := time.ParseDuration(args[0])
	ts.Check(err)
	f := playedIn(ts)
	f.Pass(d)
	if d < time.Hour {
		return
	}
	for name := range f.Members {
		f.StopMember(name)
		f.StartMember(name)
	}
}

// uses RESERVATION CPU says in rome what its pods use of a reservation, as its
// agent does where there is Liqo, which simulated clusters have not.
func usesPods(ts *testscript.TestScript, _ bool, args []string) {
	rome, i := playedIn(ts).Members["rome"].Objects, &api.ReservationInstruction{}
	eventually(ts, "rome is instructed", func() error {
		return rome.Get(context.Background(), kube.ObjectKey{Namespace: "default", Name: args[0]}, i)
	})
	before := i.DeepCopy()
	i.Status.Used = api.Resources{"cpu": resource.MustParse(args[1])}
	ts.Check(rome.Status().Patch(context.Background(), i, kube.MergeFrom(before)))
}

// capture NAME PATTERN puts what the last program wrote, where the group of a pattern matches, into
// the environment.
func capture(ts *testscript.TestScript, _ bool, args []string) {
	found := regexp.MustCompile(args[1]).FindStringSubmatch(ts.ReadFile("stdout"))
	if found == nil {
		ts.Fatalf("nothing matches %s", args[1])
	}
	ts.Setenv(args[0], found[1])
}

// documentation is the folder of docs.
func documentation() string {
	dir, err := filepath.Abs("../../docs")
	if err != nil {
		panic(err) // there is no working folder
	}
	return dir
}

// waits NAMESPACE NAME COUNT CPU makes pods in rome that its scheduler has found no node for since an hour.
func waitingPods(ts *testscript.TestScript, _ bool, args []string) {
	n, err := strconv.Atoi(args[2])
	ts.Check(err)
	amount := corev1.ResourceList{"cpu": resource.MustParse(args[3]), "memory": resource.MustParse("1Gi")}
	for i := range n {
		pod := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: args[0], Name: args[1] + "-" + strconv.Itoa(i)},
			Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "example.test/web",
				Resources: corev1.ResourceRequirements{Requests: amount, Limits: amount}}}},
		}
		rome := playedIn(ts).Members["rome"].Objects
		ts.Check(rome.Create(context.Background(), pod))
		before := pod.DeepCopy()
		pod.Status = corev1.PodStatus{Phase: corev1.PodPending, Conditions: []corev1.PodCondition{{
			Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable,
			LastTransitionTime: metav1.NewTime(time.Now().Add(-time.Hour)),
		}}}
		ts.Check(rome.Status().Patch(context.Background(), pod, kube.MergeFrom(before)))
	}
}

// apply FILE makes a VirtualNodePool in rome, as its admins do, with a status, as its agent does where
// there is Liqo.
func applyPool(ts *testscript.TestScript, _ bool, args []string) {
	pool := &api.VirtualNodePool{}
	ts.Check(yaml.UnmarshalStrict([]byte(ts.ReadFile(args[0])), pool))
	rome, status := playedIn(ts).Members["rome"].Objects, pool.Status
	ts.Check(rome.Create(context.Background(), pool))
	pool.Status = status
	ts.Check(rome.Status().Update(context.Background(), pool))
}

// sells CLUSTER has it lend nothing but what its offers sell.
func sellOnly(ts *testscript.TestScript, _ bool, args []string) {
	objects, policy := playedIn(ts).Members[args[0]].Objects, &api.SharingPolicy{}
	ts.Check(objects.Get(context.Background(), kube.ObjectKey{Name: "default"}, policy))
	before := policy.DeepCopy()
	policy.Spec.OnlyOffers = true
	ts.Check(objects.Patch(context.Background(), policy, kube.MergeFrom(before)))
}
