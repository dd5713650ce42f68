package ui_test

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	kube "sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/client"
	"github.com/bourse-dev/bourse/client/cluster"
	"github.com/bourse-dev/bourse/internal/agent/scheme"
	"github.com/bourse-dev/bourse/internal/sim/federation"
	"github.com/bourse-dev/bourse/internal/sim/kubeapi"
	"github.com/bourse-dev/bourse/internal/ui"
	"github.com/bourse-dev/bourse/internal/ui/pages"
)

// ann returns a browser of a user who may do everything in namespace team of a cluster, and nothing elsewhere. Of the agent
// it gets one answer, to questions about what would end.
func ann(t *testing.T, served *kubeapi.API, impact api.Impact) *admin {
	t.Helper()
	server := httptest.NewServer(served.HandlerFor(kubeapi.User{Name: "ann", Token: "ann", Namespace: "team"}))
	t.Cleanup(server.Close)
	agent := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if strings.HasSuffix(r.URL.Path, "/impact") {
			_ = json.NewEncoder(w).Encode(impact)
			return
		}
		w.WriteHeader(http.StatusNotFound)
		_ = json.NewEncoder(w).Encode(api.Errorf(api.CodeNotFound, "no %s", r.URL.Path))
	}))
	t.Cleanup(agent.Close)
	objects, err := cluster.NewObjects(&rest.Config{Host: server.URL, BearerToken: "ann"})
	if err != nil {
		t.Fatal(err)
	}
	acts := cluster.At(client.New(agent.URL, nil), objects, "team")
	a := &admin{t: t, pages: ui.New(ui.Options{Reads: acts, Acts: acts, User: "ann", Patience: patient, Namespaces: []string{"team"},
		May: func(context.Context, string) pages.Rights { return pages.Rights{} }, Log: slog.New(slog.DiscardHandler)}, "/s/0")}
	t.Cleanup(a.pages.Close)
	return a
}

// pod is one on a node, "" for none yet.
func pod(namespace, name, node string, phase corev1.PodPhase) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	p.Spec = corev1.PodSpec{NodeName: node, Containers: []corev1.Container{{Name: "app", Image: "app"}}}
	p.Status.Phase = phase
	return p
}

// The page of a request has its pods, those first that cannot run, with why. Pods that the user may not list are a number.
func TestARequestShowsItsPods(t *testing.T) {
	served := kubeapi.New(kubeapi.Options{Types: federation.Kinds()})
	admin, err := kube.New(served.Config(), kube.Options{Scheme: scheme.New()})
	if err != nil {
		t.Fatal(err)
	}
	size, until := api.Resources{"cpu": resource.MustParse("4")}, metav1.NewTime(time.Now().Add(time.Hour))
	request := &api.ResourceRequest{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "web"}}
	request.Spec.Request, request.Spec.Offload = api.Request{Resources: size}, &api.Offload{Namespaces: []string{"team", "other"}}
	instruction := &api.ReservationInstruction{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "r-1"}, Spec: api.Instruction{
		Reservation: "r-1", Generation: 1, Consumer: "rome", Provider: "milan", Pool: "general", Slice: "rome-milan", Resources: size,
		Until: until}}
	stuck := pod("team", "stuck", "rome-milan", corev1.PodPending)
	stuck.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "app", State: corev1.ContainerState{
		Waiting: &corev1.ContainerStateWaiting{Reason: "ImagePullBackOff", Message: "no such image"}}}}
	homeless := pod("team", "homeless", "", corev1.PodPending)
	homeless.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse,
		Reason: "Unschedulable", Message: "0/2 nodes are available"}}
	for _, o := range []kube.Object{request, instruction, pod("team", "fine", "rome-milan", corev1.PodRunning), stuck, homeless,
		pod("team", "elsewhere", "rome-1", corev1.PodRunning), pod("other", "hidden", "rome-milan", corev1.PodRunning)} {
		status := o.DeepCopyObject().(kube.Object)
		if err := admin.Create(t.Context(), o); err != nil {
			t.Fatal(err)
		}
		if _, is := o.(*corev1.Pod); is {
			status.SetResourceVersion(o.GetResourceVersion())
			if err := admin.Status().Update(t.Context(), status); err != nil {
				t.Fatal(err)
			}
		}
	}
	request.Status.State, request.Status.Reservation, request.Status.Provider = api.Active, "r-1", "milan"
	if err := admin.Status().Update(t.Context(), request); err != nil {
		t.Fatal(err)
	}
	page := ann(t, served, api.Impact{Pods: &api.Pods{Count: 3, Names: []string{}}}).until("/requests/team/web", "team/fine")
	last := 0
	for _, text := range []string{"team/homeless", "Unschedulable: 0/2 nodes are available.", "team/stuck",
		"container app: ImagePullBackOff: no such image.", "team/fine", "On the virtual node: 1 other pod.",
		"may not list the pods of other."} {
		at := strings.Index(page, text)
		if at < last {
			t.Errorf("%q is missing, or not in its place:\n%s", text, page)
		}
		last = max(at, last)
	}
	for _, text := range []string{"elsewhere", "other/hidden"} {
		if strings.Contains(page, text) {
			t.Errorf("the page has %q", text)
		}
	}
}
