package cluster_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/client"
	"github.com/bourse-dev/bourse/client/cluster"
)

// A reservation ends earlier only for a user who agrees to that.
func TestAnEndMovesBackOnlyIfAgreed(t *testing.T) {
	now := time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)
	var bound client.RequestStatus
	bound.Payload.Status.Began = &metav1.Time{Time: now.Add(-24 * time.Hour)}
	bound.Payload.Status.Until = &metav1.Time{Time: now.Add(3 * 24 * time.Hour)}
	for _, c := range []struct {
		last    time.Duration
		shorten bool
		refused string
	}{
		{10 * 24 * time.Hour, false, ""},
		{3*24*time.Hour - 30*time.Second, false, ""}, // within what the user may have rounded
		{4 * time.Hour, true, ""},
		{4 * time.Hour, false, "that would end it 2d20h earlier: it lasts until 2026-05-07T12:00:00Z"},
		{-time.Hour, true, "is not in the future"},
		{364 * 24 * time.Hour, false, ""},
		{365 * 24 * time.Hour, false, "lasts at most 365d, from when it began: until 2027-05-03T12:00:00Z"},
	} {
		change, err := cluster.MoveEnd(bound, now.Add(c.last), now, c.shorten)
		switch {
		case c.refused != "" && (err == nil || !strings.Contains(err.Error(), c.refused)):
			t.Errorf("%s, agreed %t: %v, want %q", c.last, c.shorten, err, c.refused)
		case c.refused == "" && (err != nil || change.For.Duration != c.last):
			t.Errorf("%s, agreed %t: %+v, %v", c.last, c.shorten, change, err)
		}
	}
}

// The pods of a node are read by the API server's choice of fields. With no node they are those that wait for one.
func TestPodsOnANode(t *testing.T) {
	config, admin := simulated(t)
	for name, node := range map[string]string{"there": "rome-milan", "waits": "", "elsewhere": "rome-1"} {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: name}, Spec: corev1.PodSpec{NodeName: node,
			Containers: []corev1.Container{{Name: "app", Image: "app"}}}}
		if err := admin.Create(t.Context(), p); err != nil {
			t.Fatal(err)
		}
		p.Status.Phase = corev1.PodPending
		if err := admin.Status().Update(t.Context(), p); err != nil {
			t.Fatal(err)
		}
	}
	user, err := cluster.New(config)
	if err != nil {
		t.Fatal(err)
	}
	for node, want := range map[string]string{"rome-milan": "there", "": "waits"} {
		pods, more, err := user.PodsOn(t.Context(), "team", node)
		if err != nil || more || len(pods) != 1 || pods[0].Name != want {
			t.Errorf("on node %q are %v, %t, %v", node, pods, more, err)
		}
	}
}

// A request that Git keeps is deleted in Git, also one that was refused.
func TestWhatGitKeepsIsNotDeleted(t *testing.T) {
	refused, kept := request("refused", "", nil), request("kept", "", nil)
	kept.Annotations = map[string]string{"argocd.argoproj.io/tracking-id": "rome:kept"}
	c, _ := desk(t, nil, refused, kept)
	if err := c.DeleteRequest(t.Context(), "default", "kept"); api.CodeOf(err) != api.CodeConflict ||
		!strings.Contains(err.Error(), "Argo CD keeps ResourceRequest kept") {
		t.Errorf("what Git keeps: %v", err)
	}
	if err := c.DeleteRequest(t.Context(), "default", "refused"); err != nil {
		t.Error(err)
	}
}

// The command that releases a request with a name that is taken names its namespace, as every command does.
func TestANameThatIsTakenIsReleasedByItsCommand(t *testing.T) {
	c, _ := desk(t, nil, request("web", "", nil))
	_, err := c.CreateRequest(t.Context(), api.RequestCreate{Namespace: "default", Name: "web"})
	e, is := errors.AsType[*api.Error](err)
	if !is || e.Code != api.CodeConflict || e.Argv.String() != "bourse release web -n default" {
		t.Errorf("a name that is taken is answered %v", err)
	}
}
