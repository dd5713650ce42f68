package posture

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/liqo/liqotest"
)

var (
	// amount is what a text must be before anyone reads it as an amount: %[1]s is the text.
	amount = fmt.Sprintf("string(%%[1]s).size() <= %d && string(%%[1]s).matches(r'%s')",
		api.QuantityLength, api.QuantityPattern)
	rule = fmt.Sprintf("an amount has at most %d characters and an exponent of at most two digits, "+
		"and a map of amounts at most 32 entries", api.QuantityLength)
)

// tree has the places of amounts, by what leads there: a field, "[]" for the items of a list, "{}" for the values
// of a map.
type tree map[string]tree

// group is a part of a kind whose amounts one expression checks.
type group struct {
	name    string // such as spec.pod.containers
	holds   []string
	amounts tree
}

func treeOf(t *testing.T, file string) tree {
	root := tree{}
	for _, place := range placesOf(t, file) {
		at := root
		for _, step := range steps(place) {
			if at[step] == nil {
				at[step] = tree{}
			}
			at = at[step]
		}
	}
	return root
}

func steps(place string) []string {
	return strings.Split(strings.NewReplacer("[]", ".[]", "{}", ".{}").Replace(place), ".")
}

// placesOf finds the amounts of one of Liqo's kinds in its CRD. What else may be an integer or a text is a port.
func placesOf(t *testing.T, file string) (all []string) {
	t.Helper()
	text, err := os.ReadFile(liqotest.CRDs(t, file+".yaml")[0])
	if err != nil {
		t.Fatal(err)
	}
	var crd struct {
		Spec struct {
			Versions []struct {
				Schema struct {
					OpenAPIV3Schema schema `json:"openAPIV3Schema"`
				} `json:"schema"`
			} `json:"versions"`
		} `json:"spec"`
	}
	if err := yaml.Unmarshal(text, &crd); err != nil || len(crd.Spec.Versions) != 1 {
		t.Fatalf("%s has %d versions, %v", file, len(crd.Spec.Versions), err)
	}
	crd.Spec.Versions[0].Schema.OpenAPIV3Schema.walk("", func(at string, s *schema) {
		if s.Pattern != "" {
			all = append(all, strings.TrimPrefix(at, "."))
		} else if !strings.HasSuffix(at, ".port") {
			t.Errorf("%s: %s is neither an amount nor a port", file, at)
		}
	})
	slices.Sort(all)
	return all
}

type schema struct {
	Properties           map[string]*schema `json:"properties"`
	AdditionalProperties *schema            `json:"additionalProperties"`
	Items                *schema            `json:"items"`
	IntOrString          bool               `json:"x-kubernetes-int-or-string"`
	Pattern              string             `json:"pattern"`
}

func (s *schema) walk(at string, found func(string, *schema)) {
	if s == nil {
		return
	}
	if s.IntOrString {
		found(at, s)
	}
	for name, p := range s.Properties {
		p.walk(at+"."+name, found)
	}
	s.Items.walk(at+"[]", found)
	s.AdditionalProperties.walk(at+"{}", found)
}

// groups returns the parts of a kind: each list and each map, and of a pod what is in neither.
func (t tree) groups() (all []group) {
	pod, ok := t["spec"]["pod"]
	if !ok { // a ResourceSlice
		for _, part := range slices.Sorted(maps.Keys(t)) {
			all = append(all, group{part + ".resources", nil, tree{part: t[part]}})
		}
		return all
	}
	rest := tree{}
	for _, field := range slices.Sorted(maps.Keys(pod)) {
		if items, ok := pod[field]["[]"]; ok {
			all = append(all, group{"spec.pod." + field, items.leaves(""), tree{"spec": {"pod": {field: pod[field]}}}})
		} else {
			rest[field] = pod[field]
		}
	}
	return append(all, group{"spec.pod", rest.leaves(""), tree{"spec": {"pod": rest}}})
}

func (t tree) leaves(at string) (all []string) {
	for _, step := range slices.Sorted(maps.Keys(t)) {
		next := strings.TrimPrefix(at+"."+step, ".")
		if strings.HasSuffix(step, "]") || strings.HasSuffix(step, "}") {
			next = at
		}
		if len(t[step]) == 0 {
			all = append(all, next)
		}
		all = append(all, t[step].leaves(next)...)
	}
	return all
}

// good returns the expression that all amounts below a variable are in order.
func (t tree) good(of string, depth int) string {
	var ofMaps, single, lists []string
	t.gather(of, depth, &ofMaps, &single, &lists)
	var all []string
	if len(ofMaps) > 0 {
		all = append(all, fmt.Sprintf("[%s].all(m, size(m) <= 32 && m.all(k, %s))", strings.Join(ofMaps, ", "),
			fmt.Sprintf(amount, "m[k]")))
	}
	if len(single) > 0 {
		all = append(all, fmt.Sprintf("[%s].all(q, %s)", strings.Join(single, ", "), fmt.Sprintf(amount, "q")))
	}
	return strings.Join(append(all, lists...), " && ")
}

func (t tree) gather(at string, depth int, ofMaps, single, lists *[]string) {
	for _, step := range slices.Sorted(maps.Keys(t)) {
		switch below := t[step]; {
		case step == "[]":
			item := string("cdef"[depth])
			*lists = append(*lists, fmt.Sprintf("%s.orValue([]).all(%s, %s)", at, item, below.good(item, depth+1)))
		case step == "{}":
			*ofMaps = append(*ofMaps, at+".orValue({})")
		case len(below) == 0:
			*single = append(*single, at+".?"+step+".orValue(0)")
		default:
			below.gather(at+".?"+step, depth, ofMaps, single, lists)
		}
	}
}

// policy returns a policy with its binding. It holds for everybody, and has no parameters.
func policy(name, apiGroup, resources string, groups []group) string {
	var b strings.Builder
	fmt.Fprintf(&b, `apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: %[1]s}
spec:
  failurePolicy: Fail
  matchConstraints:
    matchPolicy: Equivalent
    namespaceSelector: {}
    objectSelector: {}
    resourceRules:
      - {apiGroups: [%[2]s], apiVersions: [v1beta1], operations: [CREATE, UPDATE], resources: %[3]s, scope: "*"}
      - {apiGroups: [bourse.dev], apiVersions: [v1alpha1], operations: [CREATE], resources: [peerings], scope: "*"} # its proof
  matchConditions:
    - {name: its-own-proof, expression: "request.resource.resource != 'peerings' || object.metadata.name == '%[1]s.proof'"}
  validations:
    - expression: "request.resource.resource != 'peerings'"
      message: "%[1]s: in force"
      reason: Invalid
`, name, apiGroup, resources)
	for _, g := range groups {
		part := strings.ReplaceAll(g.name, ".", ".?")
		fmt.Fprintf(&b, `    - expression: >-
        request.operation == 'UPDATE' && object.?%[1]s == oldObject.?%[1]s ||
        %s
      message: >-
        %s
      reason: Invalid
`, part, wrap(g.amounts.good("object", 0), 8), wrap(g.message(), 8))
	}
	fmt.Fprintf(&b, `---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: %[1]s}
spec:
  policyName: %[1]s
  validationActions: [Deny, Audit]
`, name)
	return b.String()
}

// message says what a policy refuses.
func (g group) message() string {
	if len(g.holds) == 0 {
		return g.name + ": " + rule
	}
	return fmt.Sprintf("%s (%s): %s", g.name, strings.Join(g.holds, ", "), rule)
}

// webhook returns the patch of one of Liqo's webhooks. A condition that is false leaves the webhook out, which
// also checks and writes who made the pod; one that fails refuses the request.
func webhook(kind string, groups []group) string {
	var b strings.Builder
	fmt.Fprintf(&b, `# Liqo's webhook would decode the amounts of a ShadowPod before any policy sees them. By these conditions the
# API server refuses amounts that take too long to decode, and does not call the webhook. The end of a pod passes.
# Generated from Liqo's CRD by make generate.
#
#   kubectl patch %swebhookconfiguration liqo-webhook --patch-file config/liqo-webhook/%[1]s.yaml
webhooks:
  - name: shadowpod.%s.liqo.io
    failurePolicy: Fail
    matchConditions:
`, kind, map[string]string{"mutating": "mutate", "validating": "validate"}[kind])
	for _, g := range groups {
		name := strings.ToLower(g.name[strings.LastIndex(g.name, ".")+1:])
		fmt.Fprintf(&b, `      - name: bourse-amounts-%s
        expression: >-
          [object, oldObject].all(o, o == null ||
          %s) ? true :
          request.operation == 'DELETE' || request.operation == 'UPDATE' && has(object.metadata.deletionTimestamp) &&
          object.spec == oldObject.spec && object.metadata.?labels == oldObject.metadata.?labels ? false :
          {'': true}['%s: %s']
`, name, wrap(g.amounts.good("o", 0), 10), g.name, rule)
	}
	return b.String()
}

// wrap breaks a text at blanks, which YAML joins again.
func wrap(text string, indent int) string {
	var lines []string
	line := ""
	for word := range strings.FieldsSeq(text) {
		if line != "" && indent+len(line)+1+len(word) > 150 {
			lines, line = append(lines, line), ""
		}
		line = strings.TrimPrefix(line+" "+word, " ")
	}
	return strings.Join(append(lines, line), "\n"+strings.Repeat(" ", indent))
}
