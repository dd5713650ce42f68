package clusterkey_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bourse-dev/bourse/internal/identity/clusterkey"
)

type sized struct {
	Inner []*inner            `json:"inner,omitempty"`
	Until metav1.Time         `json:"until,omitzero"`
	More  corev1.ResourceList `json:"more,omitempty"`
}

type inner struct {
	Resources corev1.ResourceList `json:"resources,omitempty"`
}

// One value has one spelling, however many digits Kubernetes reads.
func TestOneValueHasOneSpelling(t *testing.T) {
	key := newKey(t, 1)
	header := `{"alg":"EdDSA","kid":"` + key.Public().Fingerprint().String() + `","typ":"bourse/assignment+jws"}`
	quantity := func(text string) string { return `{"inner":[{"resources":{"cpu":` + text + `}}]}` }
	zeros := strings.Repeat("0", 40_000)
	for name, test := range map[string]struct {
		payload string
		want    error
	}{
		"an amount":          {quantity(`"1m"`), nil},
		"an amount of bytes": {quantity(`"1536Mi"`), nil},
		"zeros behind":       {quantity(`"0.001` + zeros + `"`), clusterkey.ErrPayload},
		"few zeros behind":   {quantity(`"0.0010"`), clusterkey.ErrNotCanonical},
		"zeros before":       {quantity(`"` + zeros + `1"`), clusterkey.ErrPayload},
		"digits that are rounded": {quantity(`"0.0009999999` + strings.Repeat("9", 40_000) + `1"`),
			clusterkey.ErrPayload},
		"an exponent that takes long": {quantity(`"1e-999999999"`), clusterkey.ErrPayload},
		"a number":                    {quantity(`1`), clusterkey.ErrPayload},
		"a time":                      {`{"until":"2026-11-23T12:00:00Z"}`, nil},
		"a time of many digits":       {`{"until":"2026-11-23T12:00:00.` + zeros + `Z"}`, clusterkey.ErrNotCanonical},
		"a time of another zone":      {`{"until":"2026-11-23T13:00:00+01:00"}`, clusterkey.ErrNotCanonical},
	} {
		t.Run(name, func(t *testing.T) {
			begin := time.Now()
			var into sized
			if err := clusterkey.Verify(rawSign(t, 1, header, test.payload),
				"assignment", key.Public(), &into); !errors.Is(err, test.want) {
				t.Errorf("%v, want %v", err, test.want)
			}
			if took := time.Since(begin); took > 10*time.Second {
				t.Errorf("it took %s", took)
			}
		})
	}
}
