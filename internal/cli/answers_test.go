package cli

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/client"
	"github.com/bourse-dev/bourse/client/cluster"
	"github.com/bourse-dev/bourse/internal/explain"
)

// playAgent serves answers of an agent and of its API server, by path. Of several answers for a path each call gets the
// next, and the last one stays. It returns what runs a command against them and returns what that writes.
func playAgent(t *testing.T, answers map[string][]any) (run func(args ...string) (out, progress string)) {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		path := strings.TrimPrefix(r.URL.Path, api.Prefix)
		all, ok := answers[path]
		w.Header().Set("Content-Type", "application/json")
		if !ok {
			w.WriteHeader(http.StatusNotFound)
			_ = json.NewEncoder(w).Encode(apierrors.NewNotFound(schema.GroupResource{Resource: path}, "").Status())
			return
		}
		if len(all) > 1 {
			answers[path] = all[1:]
		}
		_ = json.NewEncoder(w).Encode(all[0])
	}))
	t.Cleanup(s.Close)
	objects, err := cluster.NewObjects(&rest.Config{Host: s.URL})
	if err != nil {
		t.Fatal(err)
	}
	return func(args ...string) (string, string) {
		t.Helper()
		var out, progress bytes.Buffer
		sh := &shell{out: &out, progress: &progress, cluster: cluster.At(client.New(s.URL, nil), objects, "team")}
		if code := execute(sh, args); code != 0 {
			t.Fatalf("%v: exit code %d: %s", args, code, progress.String())
		}
		return out.String(), progress.String()
	}
}

// requestsOf are answers with these objects as the list of namespace team.
func requestsOf(all ...api.ResourceRequest) []any {
	return []any{api.ResourceRequestList{TypeMeta: metaOf("ResourceRequestList"), Items: all}}
}

// requestOf is the object of a request of namespace team.
func requestOf(name string, r api.RequestStatus, generation int64) api.ResourceRequest {
	o := api.ResourceRequest{TypeMeta: metaOf("ResourceRequest"), Status: r.Status}
	o.Namespace, o.Name, o.Generation, o.UID = "team", name, generation, types.UID(name)
	o.Spec.Request, o.Spec.Offload = r.Request, r.Offload
	return o
}

// stepsOf is the object with the steps of a request.
func stepsOf(r api.RequestStatus) api.ReservationInstruction {
	o := api.ReservationInstruction{TypeMeta: metaOf("ReservationInstruction")}
	o.Namespace, o.Name, o.Status.Conditions = "team", r.Status.Reservation, r.Steps
	return o
}

func metaOf(kind string) metav1.TypeMeta {
	return metav1.TypeMeta{APIVersion: api.GroupVersion.String(), Kind: kind}
}

// poolsOf are answers with the list of VirtualNodePools.
func poolsOf(all ...api.Envelope[api.KnownVirtualNodePool]) []any {
	list := api.VirtualNodePoolList{TypeMeta: metaOf("VirtualNodePoolList")}
	for _, p := range all {
		o := api.VirtualNodePool{Spec: p.Payload.Spec, Status: p.Payload.Status}
		o.Name = p.ID
		list.Items = append(list.Items, o)
	}
	return []any{list}
}

func itemsOf[T any](all ...api.Envelope[T]) []any { return []any{api.List[T]{Items: all}} }

func says(t *testing.T, where, text string, all ...string) {
	t.Helper()
	for _, one := range all {
		if !strings.Contains(text, one) {
			t.Errorf("%s does not say %q:\n%s", where, one, text)
		}
	}
}

// Where this cluster passes over a provider for each new request, every view says so before one is refused.
func TestViewsOfAProviderThatIsPassedOver(t *testing.T) {
	const why = "InUse: milan has what this cluster lends on by VirtualNodePool hub"
	clusters := itemsOf(
		api.Envelope[api.Cluster]{ID: "milan", Payload: api.Cluster{Fresh: true, PassedOver: why,
			Pools: map[string]api.Amounts{api.GeneralPool: {}}}},
		api.Envelope[api.Cluster]{ID: "oslo", Payload: api.Cluster{Fresh: true,
			Pools: map[string]api.Amounts{api.GeneralPool: {}}}},
		api.Envelope[api.Cluster]{ID: "bern", Payload: api.Cluster{Fresh: true, PassedOver: "Disabled: by its choice"}},
		api.Envelope[api.Cluster]{ID: "rhein", Payload: api.Cluster{Fresh: true, PassedOver: "Disabled: by its choice"}})
	pool := api.Envelope[api.KnownVirtualNodePool]{ID: "hub"}
	pool.Payload.Status.Providers = []api.PoolProvider{{Name: "milan", State: "Ready"}}
	run := playAgent(t, map[string][]any{
		"/clusters": clusters, "/namespaces/team/resourcerequests": requestsOf(), "/virtualnodepools": poolsOf(pool),
		"/reservations/r-1": {api.Envelope[api.Reservation]{ID: "r-1",
			Payload: api.Reservation{State: api.Rejected, Decision: &api.Decision{Considered: 2}}}},
		"/status": {api.AgentStatus{Cluster: "rome", Connected: true, Broker: "https://broker.example"}},
	})
	const text = "new requests of this cluster pass over milan: " + why
	out, progress := run("clusters")
	says(t, "clusters", out, "milan    InUse", "oslo     Fresh", "bern     Disabled")
	says(t, "clusters", progress, text, "new requests of this cluster pass over bern, rhein: Disabled: by its choice\n")
	_, progress = run("status")
	says(t, "status", progress, text)
	for _, args := range [][]string{{"why", "r-1"}, {"vnp", "why", "hub"}} {
		out, _ := run(args...)
		says(t, strings.Join(args, " "), out, text)
		if strings.Contains(out, "pass over oslo") {
			t.Errorf("%v names oslo:\n%s", args, out)
		}
	}
}

// While a provider still counts as Fresh, its age shows that it may be away.
func TestViewsSayThatAProviderMayBeAway(t *testing.T) {
	heard := func(name string, ago time.Duration) api.Envelope[api.Cluster] {
		return api.Envelope[api.Cluster]{ID: name, Payload: api.Cluster{Fresh: true,
			FreshUntil: metav1.NewTime(time.Now().Add(-24 * time.Hour)), // by the broker's clock, which is late
			HeardAgo:   &metav1.Duration{Duration: ago}}}
	}
	silent := heard("milan", time.Minute)
	pool := api.Envelope[api.KnownVirtualNodePool]{ID: "hub"}
	pool.Payload.Status.Providers = []api.PoolProvider{{Name: "milan", State: "Ready"}}
	run := playAgent(t, map[string][]any{
		"/clusters": itemsOf(silent, heard("oslo", 0)), "/clusters/milan": {silent},
		"/namespaces/team/resourcerequests": requestsOf(), "/virtualnodepools": poolsOf(pool),
		"/reservations/r-1": {api.Envelope[api.Reservation]{ID: "r-1", Payload: api.Reservation{State: api.Active,
			Provider: "milan", Decision: &api.Decision{Considered: 1}}}},
	})
	_, progress := run("clusters")
	why, _ := run("why", "r-1")
	ofPool, _ := run("vnp", "why", "hub")
	for _, text := range []string{progress, why, ofPool} {
		says(t, "it", text, "the broker last heard from milan 1m ago: it may be away, and counts as Silent after 1m30s")
		if strings.Contains(text, "oslo") {
			t.Errorf("oslo was heard: %s", text)
		}
	}
}

// steady is a request that has what it asked for.
func steady() api.RequestStatus {
	is := func(kind string) metav1.Condition {
		return metav1.Condition{Type: kind, Status: metav1.ConditionTrue, Reason: kind}
	}
	r := api.RequestStatus{Request: api.Request{Resources: api.Resources{"cpu": resource.MustParse("6")}}}
	until := metav1.NewTime(time.Now().Add(time.Hour))
	r.Status = api.ResourceRequestStatus{Until: &until, State: api.Active, Reservation: "r-1", Provider: "milan", Message: "Active",
		Resources:  api.Resources{"cpu": resource.MustParse("6")},
		Conditions: []metav1.Condition{is(api.ConditionReady), is(api.ConditionUpToDate)}}
	for _, kind := range explain.Steps {
		r.Steps = append(r.Steps, is(kind))
	}
	return r
}

// A bound request that no pod can use, here because its provider suspended this cluster, is named above the lists.
func TestListsNameARequestThatIsNotReady(t *testing.T) {
	r := steady()
	r.Status.Message = "Active; milan gives nothing more: its admin suspended rome"
	r.Status.Conditions[0].Status, r.Status.Conditions[0].Reason = metav1.ConditionFalse, api.ConditionSuspended
	fine := steady()
	fine.Status.Reservation = "r-2"
	run := playAgent(t, map[string][]any{
		"/status":                                    {api.AgentStatus{Cluster: "rome", Connected: true, Broker: "https://broker.example"}},
		"/namespaces/team/resourcerequests":          requestsOf(requestOf("web", r, 1), requestOf("fine", fine, 1)),
		"/clusters":                                  itemsOf[api.Cluster](),
		"/namespaces/team/contracts":                 {api.ContractList{TypeMeta: metaOf("ContractList")}},
		"/namespaces/bourse/contracts":               {api.ContractList{TypeMeta: metaOf("ContractList")}},
		"/namespaces/team/reservationinstructions":   {api.ReservationInstructionList{TypeMeta: metaOf("ReservationInstructionList")}},
		"/namespaces/bourse/reservationinstructions": {api.ReservationInstructionList{TypeMeta: metaOf("ReservationInstructionList")}},
		"/namespaces/bourse/providerinstructions":    {api.ProviderInstructionList{TypeMeta: metaOf("ProviderInstructionList")}},
		"/reservations":                              itemsOf(api.Envelope[api.Reservation]{ID: "r-1", Payload: api.Reservation{State: api.Active}}),
	})
	for _, list := range []string{"reservations", "status", "contracts"} {
		_, progress := run(list)
		says(t, list, progress,
			"reservation r-1 (team/web) on milan is NOT READY: Active; milan gives nothing more: its admin suspended rome\n")
		if strings.Contains(progress, "r-2") {
			t.Errorf("%s names a request that is Ready: %s", list, progress)
		}
	}
}

// A command shows its own answer also where what it shows beside that cannot be read, and says so.
func TestListsWithoutWhatIsBeside(t *testing.T) {
	run := playAgent(t, map[string][]any{
		"/status":                                    {api.AgentStatus{Cluster: "rome", Connected: true, Broker: "https://broker.example"}},
		"/reservations":                              itemsOf(api.Envelope[api.Reservation]{ID: "r-1", Payload: api.Reservation{State: api.Active}}),
		"/namespaces/team/contracts":                 {api.ContractList{TypeMeta: metaOf("ContractList")}},
		"/namespaces/bourse/contracts":               {api.ContractList{TypeMeta: metaOf("ContractList")}},
		"/namespaces/team/reservationinstructions":   {api.ReservationInstructionList{TypeMeta: metaOf("ReservationInstructionList")}},
		"/namespaces/bourse/reservationinstructions": {api.ReservationInstructionList{TypeMeta: metaOf("ReservationInstructionList")}},
		"/namespaces/bourse/providerinstructions":    {api.ProviderInstructionList{TypeMeta: metaOf("ProviderInstructionList")}},
	})
	for command, want := range map[string]string{"status": "broker.example", "reservations": "r-1", "contracts": ""} {
		out, progress := run(command)
		says(t, command, out, want)
		says(t, command, progress, "the ResourceRequests could not be read: NotFound: ")
		if command == "status" {
			says(t, command, progress, "the clusters could not be read: NotFound: ")
		}
	}
}

// The clusters are shown also where the agent cannot find which of them it passes over.
func TestClustersWithoutThosePassedOver(t *testing.T) {
	run := playAgent(t, map[string][]any{"/clusters": itemsOf(
		api.Envelope[api.Cluster]{ID: "milan", Payload: api.Cluster{Fresh: true, PassedOverError: "Unavailable: no Ledger"}},
		api.Envelope[api.Cluster]{ID: "oslo", Payload: api.Cluster{Fresh: true, PassedOverError: "Unavailable: no Ledger"}})})
	out, progress := run("clusters")
	says(t, "clusters", out, "milan", "oslo")
	if want := "the clusters that this one passes over could not be read: Unavailable: no Ledger\n"; progress != want {
		t.Errorf("beside the clusters it says %q, want %q", progress, want)
	}
}

// What is asked for and what is in force are told apart.
func TestDescribesWhatIsInForce(t *testing.T) {
	r := steady()
	r.Request.Resources = api.Resources{"cpu": resource.MustParse("60")}
	one := requestOf("web", r, 1)
	run := playAgent(t, map[string][]any{"/namespaces/team/resourcerequests": requestsOf(one),
		"/namespaces/team/resourcerequests/web": {one}, "/namespaces/team/reservationinstructions/r-1": {stepsOf(r)}})
	out, _ := run("describe", "web")
	says(t, "describe", out, "asks for     cpu=60\n", "in force     cpu=6\n")
}

// A change of a bound request repeats no step that was reached before, and shows each of its own steps once.
func TestFollowsAChangeWithoutRepetition(t *testing.T) {
	of := func(r api.RequestStatus, generation int64) api.ResourceRequest {
		return requestOf("web", r, generation)
	}
	before, asked, lost, done := steady(), steady(), steady(), steady()
	const change = "milan is asked to accept the change"
	for _, r := range []*api.RequestStatus{&before, &asked, &lost, &done} {
		r.Status.Began = &metav1.Time{Time: time.Now().Add(-time.Hour)}
	}
	asked.Status.Conditions[1] = metav1.Condition{Type: api.ConditionUpToDate, Status: metav1.ConditionFalse,
		Reason: api.Changing, Message: change, ObservedGeneration: 2}
	lost.Status.Conditions[1] = asked.Status.Conditions[1]
	lost.Steps[1] = metav1.Condition{Type: api.ConditionGranted, Status: metav1.ConditionFalse, Reason: "Waiting",
		Message: "milan has not answered yet"}
	done.Status.Conditions[1].ObservedGeneration = 2
	run := playAgent(t, map[string][]any{
		"/namespaces/team/resourcerequests": requestsOf(of(before, 1)),
		"/namespaces/team/resourcerequests/web": {of(asked, 2), of(before, 1), of(asked, 2), of(asked, 2), of(lost, 2),
			of(asked, 2), of(done, 2)},
		"/namespaces/team/reservationinstructions/r-1": {stepsOf(before), stepsOf(asked), stepsOf(asked), stepsOf(lost),
			stepsOf(asked), stepsOf(done)},
	})
	_, progress := run("resize", "web", "--cpu", "8")
	want := []string{change, "Granted: not yet: Waiting: milan has not answered yet", "Granted"}
	var got []string
	for line := range strings.Lines(progress) {
		if line, step := strings.CutPrefix(line, "  "); step {
			got = append(got, strings.TrimSpace(line))
		}
	}
	if strings.Join(got, "|") != strings.Join(want, "|") {
		t.Errorf("it shows the steps %q, want %q:\n%s", got, want, progress)
	}
}

// A list of what has ordinary names fits into 80 columns; here those that scripts do not see with rows.
func TestListsAreNarrow(t *testing.T) {
	until := metav1.NewTime(time.Now().Add(100 * time.Hour))
	approval := api.Envelope[api.Approval]{ID: "r-hmm6b45tt7s2ydh2", Payload: api.Approval{Consumer: "austin",
		Offer: "training", Plan: "a100", Units: 12, Until: until, By: until,
		Resources: api.Resources{"cpu": resource.MustParse("48"), "memory": resource.MustParse("96Gi")}}}
	proposal := api.Proposal{Spec: api.ProposalSpec{Seller: "milan", Offer: "training", Plan: "a100"}}
	proposal.Namespace, proposal.Name = "team", "p-60a505c957f10a761474fa4fba397c64e024b45c"
	proposal.Status.ID = proposal.Name
	proposal.Spec.Price = &api.Price{Amount: "49.90", Currency: "EUR", Period: api.PeriodMonth}
	broker := api.Envelope[api.KnownBroker]{ID: "north",
		Payload: api.KnownBroker{LastHeard: metav1.Now(), Reservations: 12}}
	broker.Payload.Status.URL = "https://bourse.north.example:7443"
	broker.Payload.Status.Conditions = []metav1.Condition{{Type: api.ConditionConnected, Reason: "Connected",
		LastTransitionTime: metav1.NewTime(time.Now().Add(-200 * time.Minute))}}
	waits := api.ProviderInstruction{Spec: api.Instruction{Consumer: approval.Payload.Consumer, Until: until,
		Resources: approval.Payload.Resources}}
	waits.Name = approval.ID
	waits.Status.Approval = &api.PendingApproval{Offer: "training", Plan: "a100", Units: 12, By: until}
	run := playAgent(t, map[string][]any{
		"/namespaces/bourse/providerinstructions": {api.ProviderInstructionList{TypeMeta: metaOf("ProviderInstructionList"),
			Items: []api.ProviderInstruction{waits}}},
		"/namespaces/team/proposals": {api.ProposalList{TypeMeta: metaOf("ProposalList"),
			Items: []api.Proposal{proposal}}},
		"/namespaces/bourse/proposals": {api.ProposalList{TypeMeta: metaOf("ProposalList")}},
		"/status":                      {api.AgentStatus{Cluster: "rome"}}, "/brokers": itemsOf(broker),
	})
	for _, list := range []string{"approvals", "proposals", "brokers"} {
		out, _ := run(list)
		for line := range strings.Lines(out) {
			if n := len(strings.TrimSuffix(line, "\n")); n > 80 {
				t.Errorf("%s: a line has %d columns: %s", list, n, line)
			}
		}
		if wide, _ := run(list, "-o", "wide"); len(wide) <= len(out) {
			t.Errorf("%s -o wide shows no more:\n%s", list, wide)
		}
	}
}
