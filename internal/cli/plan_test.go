package cli

import (
	"testing"

	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/bourse-dev/bourse/api"
)

// Any text after --plan is a plan, or an error at --plan that says how to write one. It never panics.
func FuzzParsePlan(f *testing.F) {
	for _, text := range []string{
		"small:cpu=2,memory=4Gi,price=0.10EUR/hour,quantity=5,units=1-8,min=1h,max=720h,pool=general",
		"", ":", "small", "small:", "small:cpu", "small:=", "a:price=", "a:price=EUR/hour", "a:price=1/hour", "a:price=1EUR", "a:units=-", "a:units=1-", "a:units=--1",
		"a:min=", "a:quantity=9223372036854775808", "a:cpu=1e99999", "a:cpu=1,cpu=2", "\x00:\xff=\x00",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		p, err := parsePlan(text)
		if err == nil {
			if again, err := parsePlan(text); err != nil || !equality.Semantic.DeepEqual(p, again) || p.Name == "" {
				t.Errorf("%q is %+v, and then %+v, %v", text, p, again, err)
			}
			return
		}
		if e, ok := err.(*api.Error); !ok || e.Code != api.CodeInvalid || e.Field != "--plan" || e.Remedy == "" {
			t.Errorf("no clear error: %v", err)
		}
	})
}
