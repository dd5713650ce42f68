package server_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/server/servertest"
	"github.com/bourse-dev/bourse/internal/transport/transporttest"
)

// A consumer cannot make its assignment longer by writing an amount, or a time, with more digits,
// and cannot keep the broker busy with an amount that takes long to read.
func TestAnAssignmentHasOneSpelling(t *testing.T) {
	ctx := context.Background()
	f := servertest.Start(t, servertest.Options{})
	rome, milan := f.Join("rome"), f.Join("milan")
	milan.Advertise("8")
	held, err := rome.Reserve(ctx, "key", transporttest.Request("1m"))
	if err != nil || held.Payload.State != api.Held {
		t.Fatal(held.Payload.State, err)
	}
	signed := func(field string, value any) string {
		encoded, err := json.Marshal(rome.Assignment(held))
		var fields map[string]any
		if err == nil {
			err = json.Unmarshal(encoded, &fields)
		}
		if err != nil {
			t.Fatal(err)
		}
		fields[field] = value
		document, err := rome.Key.Sign(api.DocumentAssignment, fields)
		if err != nil {
			t.Fatal(err)
		}
		return document
	}
	until := held.Payload.Until.UTC().Format("2006-01-02T15:04:05")
	for name, document := range map[string]string{
		"zeros behind":              signed("resources", map[string]any{"cpu": "0.001" + strings.Repeat("0", 45_000)}),
		"few zeros behind":          signed("resources", map[string]any{"cpu": "0.0010"}),
		"zeros before":              signed("resources", map[string]any{"cpu": strings.Repeat("0", 45_000) + "1m"}),
		"digits that are rounded":   signed("resources", map[string]any{"cpu": "0.000" + strings.Repeat("9", 45_000)}),
		"a time of many digits":     signed("until", until+"."+strings.Repeat("0", 45_000)+"Z"),
		"an amount read for hours":  signed("resources", map[string]any{"cpu": "1e-999999999"}),
		"more than it takes at all": signed("slice", strings.Repeat("s", 10_000)),
	} {
		begin := time.Now()
		if _, err := rome.Confirm(ctx, held.ID, document); api.CodeOf(err) != api.CodeBadSignature {
			t.Errorf("%s: confirmed, or refused by %v", name, err)
		}
		if took := time.Since(begin); took > 10*time.Second {
			t.Errorf("%s: refused after %s", name, took)
		}
		begin = time.Now()
		agreement := api.Agreement{Assignment: document, Acceptance: document}
		if _, err := rome.Adopt(ctx, held.ID, agreement); api.CodeOf(err) != api.CodeBadSignature {
			t.Errorf("%s: adopted, or refused by %v", name, err)
		}
		if took := time.Since(begin); took > 10*time.Second {
			t.Errorf("%s: refused after %s", name, took)
		}
	}
	if _, err := rome.Confirm(ctx, held.ID, rome.Sign(api.DocumentAssignment, rome.Assignment(held))); err != nil {
		t.Errorf("as it is written by all: %v", err)
	}
}
