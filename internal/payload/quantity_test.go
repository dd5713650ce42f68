package payload_test

import (
	"encoding/json"
	"errors"
	"regexp"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/payload"
)

// endless are amounts, as JSON, that Kubernetes' parser would not finish within hours, or that no
// cluster has.
var endless = map[string]string{
	"a negative exponent": `"1e-999999999"`, "a number": `1e-999999999`, "an overflow": `"2E6000000000"`,
	"a large exponent": `2E999999999`, "many digits": `"` + strings.Repeat("9", 1000) + `"`,
	"many digits of a number": strings.Repeat("9", 1000), "an escape": `"1\u0065-999999999"`,
}

// within fails where do takes as long as the parser would.
func within(t *testing.T, what string, do func() error) error {
	t.Helper()
	done := make(chan error, 1)
	go func() { done <- do() }()
	select {
	case err := <-done:
		return err
	case <-time.After(time.Minute):
		t.Fatalf("%s is still being decoded after a minute", what)
		return nil
	}
}

// No amount costs more than any other, however it is written, and the error names its field.
func TestEndlessAmounts(t *testing.T) {
	for name, amount := range endless {
		plain := `{"request":{"resources":{"nvidia.com/gpu":` + amount + `}}}`
		for how, decode := range map[string]func(*api.ReservationCreate) error{
			"Unmarshal": func(v *api.ReservationCreate) error { return payload.Unmarshal([]byte(plain), v) },
			"Read":      func(v *api.ReservationCreate) error { return payload.Read([]byte(plain), v) },
			"Sharing":   func(v *api.ReservationCreate) error { return payload.Read([]byte(plain), v, payload.Sharing()) },
			"Signed":    func(v *api.ReservationCreate) error { return payload.Unmarshal([]byte(plain), v, payload.Signed) },
			"ReadYAML":  func(v *api.ReservationCreate) error { return payload.ReadYAML([]byte(plain), v) },
		} {
			err := within(t, name+" by "+how, func() error { return decode(&api.ReservationCreate{}) })
			if how == "ReadYAML" && !strings.HasPrefix(amount, `"`) {
				continue // YAML's own numbers have 64 bits
			}
			wrong, ok := errors.AsType[*api.Error](err)
			if !ok || wrong.Code != api.CodeInvalid || !strings.HasSuffix(wrong.Field, "nvidia.com/gpu") || wrong.Remedy == "" {
				t.Errorf("%s by %s: %v", name, how, err)
			}
		}
	}
}

func TestAmountsThatAreRead(t *testing.T) {
	for text, want := range map[string]string{`"500m"`: "500m", `2`: "2", `1.5`: "1500m", `"8Gi"`: "8Gi", `"1e3"`: "1e3",
		`null`: "0", `"+1"`: "1", `"1E-3"`: "1e-3"} {
		var got struct{ Q resource.Quantity }
		if err := payload.Unmarshal([]byte(`{"q":`+text+`}`), &got); err != nil || got.Q.Cmp(resource.MustParse(want)) != 0 {
			t.Errorf("%s is %s: %v", text, got.Q.String(), err)
		}
	}
	for _, text := range []string{`true`, `{}`, `[1]`, `""`, `" 1"`, `"1 "`, `"1KiB"`, `"."`, `"1e+"`, `"1e123"`, `"--1"`} {
		var got struct{ Q []resource.Quantity }
		err := payload.Unmarshal([]byte(`{"q":["1",`+text+`]}`), &got)
		if wrong, ok := errors.AsType[*api.Error](err); !ok || wrong.Field != "q[1]" {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// A signed document has no amount that is not text, or has more than 24 digits.
func TestSignedAmounts(t *testing.T) {
	for text, ok := range map[string]bool{`"8Gi"`: true, `8`: false, `null`: false, `"-` + strings.Repeat("1", 24) + `n"`: true,
		`"` + strings.Repeat("1", 25) + `n"`: false, `"1.` + strings.Repeat("1", 22) + `"`: true,
		`"1.` + strings.Repeat("1", 23) + `"`: false} {
		var got resource.Quantity
		if err := payload.Unmarshal([]byte(text), &got, payload.Signed); (err == nil) != ok {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// Numbers keep their digits, as encoding/json keeps them.
func TestNumbers(t *testing.T) {
	for _, text := range []string{`1`, `-0.10`, `1e999999999`, `null`, `"1"`, `{}`} {
		var got, want struct{ N json.Number }
		wrong := json.Unmarshal([]byte(`{"n":`+text+`}`), &want)
		if err := payload.Unmarshal([]byte(`{"n":`+text+`}`), &got); (err == nil) != (wrong == nil) || got != want {
			t.Errorf("%s is %q: %v, want %q: %v", text, got.N, err, want.N, wrong)
		}
	}
}

// Errors are those of encoding/json, which callers know.
func TestErrorsAreKnown(t *testing.T) {
	for _, text := range []string{`{"split":"a"}`, `{"resources":[1]}`, `{"split":1`, `{} x`, ``, `nonsense`, `[]`} {
		var v api.Request
		got, want := payload.Unmarshal([]byte(text), &v), json.Unmarshal([]byte(text), &v)
		if got == nil || got.Error() != want.Error() {
			t.Errorf("%s: %v, want %v", text, got, want)
		}
		a, isA := errors.AsType[*json.UnmarshalTypeError](got)
		b, isB := errors.AsType[*json.UnmarshalTypeError](want)
		if isA != isB || isA && (a.Field != b.Field || a.Value != b.Value) {
			t.Errorf("%s: %#v, want %#v", text, a, b)
		}
		_, isA = errors.AsType[*json.SyntaxError](got)
		if _, isB = errors.AsType[*json.SyntaxError](want); isA != isB {
			t.Errorf("%s: %T, want %T", text, got, want)
		}
	}
}

func FuzzQuantity(f *testing.F) {
	for _, text := range []string{"", "0", "1", "-1", "+.5", "1.", ".", "1.5Gi", "1e-9", "1E+99", "1e", "1e123", "1Mi", "1mi", "1i",
		"1e-999999999", strings.Repeat("9", 32), "-" + strings.Repeat("9", 31) + "E", "99999999999999999999999.9999999",
		"1.1Ei", "1000e99", "1 ", "1\n", "١"} {
		f.Add(text)
	}
	pattern := regexp.MustCompile(api.QuantityPattern)
	f.Fuzz(func(t *testing.T, text string) {
		want := pattern.MatchString(text) && len(text) <= api.QuantityLength
		if got := payload.IsQuantity(text); got != want {
			t.Fatalf("%q is an amount: %t, want %t", text, got, want)
		}
		q, err := payload.ParseQuantity(text)
		if err == nil && !want {
			t.Fatalf("%q is read", text)
		}
		encoded, marshalled := json.Marshal(text)
		if marshalled != nil {
			t.Fatal(marshalled)
		}
		var decoded resource.Quantity
		if failed := payload.Unmarshal(encoded, &decoded); (failed == nil) != (err == nil) {
			t.Fatalf("%q: as text %v, as JSON %v", text, err, failed)
		}
		if err != nil {
			if want && len(text) <= 20 && !strings.ContainsAny(text, "eE") {
				t.Fatalf("%q is not read: %v", text, err)
			}
			return
		}
		// What is read is written so that it is read again.
		again, err := payload.ParseQuantity(q.String())
		if err != nil || again.Cmp(q) != 0 || decoded.Cmp(q) != 0 {
			t.Fatalf("%q is written as %q, and then %q: %v", text, q.String(), again.String(), err)
		}
	})
}
