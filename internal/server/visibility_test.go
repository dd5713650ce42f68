package server_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/server/servertest"
	"github.com/bourse-dev/bourse/internal/transport/transporttest"
)

// Of a cluster that does not show itself to the asker nothing is said but that it is one of a number.
func TestHiddenClusters(t *testing.T) {
	ctx := context.Background()
	f := servertest.Start(t, servertest.Options{})
	rome, milan, secret := f.Join("rome"), f.Join("milan"), f.Join("secret")
	milan.Advertise("2")
	m := secret.Measurement("64")
	m.Terms.VisibleTo.Clusters = []string{"oslo"}
	if err := secret.PutAdvertisement(ctx, "secret", m); err != nil {
		t.Fatal(err)
	}

	clusters, err := rome.Clusters(ctx)
	if err != nil || len(clusters) != 2 {
		t.Errorf("rome sees %d clusters, itself and milan, %v", len(clusters), err)
	}
	if _, err := rome.Cluster(ctx, "secret"); api.CodeOf(err) != api.CodeNotFound {
		t.Errorf("it is not hidden: %v", err)
	}
	if c, err := f.Join("oslo").Cluster(ctx, "secret"); err != nil || c.ID != "secret" {
		t.Errorf("oslo does not see it: %v", err)
	}
	if c, err := f.Operator.Cluster(ctx, "secret"); err != nil || c.ID != "secret" {
		t.Errorf("the operator does not see it: %v", err)
	}

	tooMuch := transporttest.Request("32") // which secret alone could serve
	evaluation, err := rome.Evaluate(ctx, tooMuch)
	if err != nil {
		t.Fatal(err)
	}
	r, err := rome.Reserve(ctx, "key", tooMuch)
	if err != nil || r.Payload.State != api.Rejected {
		t.Fatalf("%s, %v", r.Payload.State, err)
	}
	kept, err := rome.Reservation(ctx, r.ID)
	if err != nil || kept.Payload.Decision == nil || kept.Payload.Decision.Hidden != 2 { // oslo shows itself to nobody
		t.Errorf("the explanation is %+v, %v", kept.Payload.Decision, err)
	}
	named := transporttest.Request("1")
	named.Target = "secret"
	byName, err := rome.Evaluate(ctx, named)
	if err != nil || byName.Decision.Candidates != 0 {
		t.Errorf("%+v, %v", byName, err)
	}
	for what, said := range map[string]any{"evaluation": evaluation,
		"answer": r, "explanation": kept, "evaluation by name": byName.Clusters, "list": clusters} {
		data, _ := json.Marshal(said)
		if strings.Contains(string(data), "secret") {
			t.Errorf("the %s names it: %s", what, data)
		}
	}
}
