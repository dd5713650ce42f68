package posture

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	authv1beta1 "github.com/liqotech/liqo/apis/authentication/v1beta1"
	offv1beta1 "github.com/liqotech/liqo/apis/offloading/v1beta1"
	admissionv1 "k8s.io/api/admissionregistration/v1"

	"github.com/bourse-dev/bourse/internal/liqo/quantities"
)

var update = flag.Bool("update", false, "write what is generated from Liqo's CRDs into config")

const configDir = "../../../config"

// The policies and the conditions of Liqo's webhooks that check amounts are those that Liqo's CRDs give. Write
// them with -update.
func TestAmountsAreThoseOfTheCRDs(t *testing.T) {
	slice, pod := treeOf(t, "authentication.liqo.io_resourceslices"), treeOf(t, "offloading.liqo.io_shadowpods")
	policies, err := os.ReadFile(filepath.Join(configDir, "liqo", "policies.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	const begin, end = "# Generated from Liqo's CRDs by make generate.\n", "# The end of what is generated.\n"
	before, rest, found := bytes.Cut(policies, []byte(begin))
	_, after, ended := bytes.Cut(rest, []byte(end))
	if !found || !ended {
		t.Fatal("config/liqo/policies.yaml does not say where the generated policies begin and end")
	}
	generated := policy("bourse-pod-amounts", "offloading.liqo.io", "[shadowpods]", pod.groups()) + "---\n" +
		policy("bourse-slice-amounts", "authentication.liqo.io", "[resourceslices, resourceslices/status]", slice.groups())
	same(t, "liqo/policies.yaml", policies, slices.Concat(before, []byte(begin), []byte(generated), []byte(end), after))
	for _, kind := range []string{"mutating", "validating"} {
		name := "liqo-webhook/" + kind + ".yaml"
		have, _ := os.ReadFile(filepath.Join(configDir, name))
		same(t, name, have, []byte(webhook(kind, pod.groups())))
	}
}

func same(t *testing.T, name string, have, want []byte) {
	t.Helper()
	if bytes.Equal(have, want) {
		return
	}
	if !*update {
		t.Errorf("config/%s is stale: run make generate", name)
		return
	}
	if err := os.WriteFile(filepath.Join(configDir, name), want, 0o644); err != nil {
		t.Fatal(err)
	}
}

// No place of an amount is left out: those of the CRDs are those that Liqo's Go types decode.
func TestEveryAmountIsChecked(t *testing.T) {
	for file, kind := range map[string]any{
		"authentication.liqo.io_resourceslices": authv1beta1.ResourceSlice{},
		"offloading.liqo.io_shadowpods":         offv1beta1.ShadowPod{},
	} {
		inSchema := placesOf(t, file)
		if want := quantities.Places(reflect.TypeOf(kind)); len(want) == 0 || !slices.Equal(inSchema, want) {
			t.Errorf("%s: the schema has amounts at %v, Go at %v", file, inSchema, want)
		}
	}
}

// Before quantity() reads an amount, the same expression makes sure that it may: an API server evaluates every
// validation of every policy, and neither a deadline nor a limit of costs ends quantity().
func TestQuantityIsGuarded(t *testing.T) {
	guard := regexp.MustCompile(`^\s*(!variables\.brokered \|\| )?(!variables\.readable \|\||variables\.readable \?)`)
	guarded := 0
	ours, err := wanted()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range ours.policies {
		expressions := map[string]string{}
		for _, v := range p.Spec.Variables {
			expressions["variable "+v.Name] = v.Expression
			if v.Name == "readable" && !strings.Contains(v.Expression, fmt.Sprintf(amount, "c.resources.requests[r]")) {
				t.Errorf("%s: readable does not look at the amounts: %s", p.Name, v.Expression)
			}
		}
		for i, v := range p.Spec.Validations {
			expressions[fmt.Sprint("validation ", i)] = v.Expression + v.MessageExpression
		}
		for name, e := range expressions {
			if strings.Contains(e, "quantity(") {
				if guarded++; !guard.MatchString(e) {
					t.Errorf("policy %s, %s: quantity() is not guarded: %s", p.Name, name, e)
				}
			}
		}
	}
	if !slices.ContainsFunc(ours.policies, looksAtClaims) {
		t.Error("bourse-reflected does not look at the amounts of claims")
	}
	if guarded != 3 {
		t.Errorf("found %d expressions with quantity()", guarded)
	}
	err = filepath.WalkDir(configDir, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() || filepath.Base(path) == "policies.yaml" {
			return err
		}
		text, err := os.ReadFile(path)
		if bytes.Contains(text, []byte("quantity(")) {
			t.Errorf("%s: quantity() belongs into policies.yaml, where this test looks", path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

func looksAtClaims(p admissionv1.ValidatingAdmissionPolicy) bool {
	return p.Name == "bourse-reflected" && slices.ContainsFunc(p.Spec.Validations, func(v admissionv1.Validation) bool {
		return strings.Contains(v.Expression, fmt.Sprintf(amount, "m[k]")) && strings.Contains(v.Message, rule)
	})
}
