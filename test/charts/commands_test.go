package charts

import (
	"io"
	"regexp"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/bourse-dev/bourse/internal/cli"
)

// pages are those with commands of Helm.
var pages = []string{"../../docs/install.md", "../../docs/uninstall.md"}

var (
	continued = regexp.MustCompile(`\\\n *`)
	// shown is a line of code, and quoted is code inside a sentence.
	shown  = regexp.MustCompile(`(?m)^ {4,}(\S.*)$`)
	quoted = regexp.MustCompile("`([^`]+)`")
	// filledIn are what a user writes into the commands of the pages.
	filledIn = strings.NewReplacer("$IMAGE", "image.repository=localhost/bourse,image.tag=VERSION", "$HOST", "172.18.0.2",
		"HOST:7444", "milan.example.org:7444", "ISSUER", "ca", "'", "")
)

// commandsOf are the commands of a page that start with a word, without comments, and up to a pipe.
func commandsOf(t *testing.T, page, word string) (all [][]string) {
	t.Helper()
	text := continued.ReplaceAllString(string(read(t, page)), "")
	found := shown.FindAllStringSubmatch(text, -1)
	for _, span := range quoted.FindAllStringSubmatch(shown.ReplaceAllString(text, ""), -1) {
		found = append(found, []string{"", strings.Join(strings.Fields(span[1]), " ")})
	}
	for _, f := range found {
		command, _, _ := strings.Cut(f[1], " #")
		for part := range strings.SplitSeq(command, " | ") {
			if strings.HasPrefix(part, word+" ") && !strings.Contains(part, "...") {
				all = append(all, strings.Fields(filledIn.Replace(part)))
			}
		}
	}
	return all
}

// least are the flags without which a chart renders nothing. Later ones win.
func least(chart string) []string {
	switch chart {
	case "bourse-agent":
		return []string{image}
	case "bourse-broker":
		return []string{image, "--set=broker.host=b"}
	}
	return nil
}

// templated is what helm template renders for an install or an upgrade.
func templated(t *testing.T, command []string) (objects []*unstructured.Unstructured) {
	t.Helper()
	upgrade := slices.Contains(command, "upgrade")
	args, chart := []string{"template", "--kube-version=1.30.0"}, ""
	for i := 1; i < len(command); i++ {
		switch word := command[i]; {
		case word == "--kube-context":
			i++
		case slices.Contains([]string{"install", "upgrade", "template", "--create-namespace", "--reset-then-reuse-values"}, word):
		case strings.HasPrefix(word, "charts/bourse-") && !strings.HasSuffix(word, ".yaml"):
			chart = strings.TrimPrefix(word, "charts/")
			args = append(args, chartOf(chart))
			if upgrade {
				args = append(args, least(chart)...) // from the install
			}
		case word == "values.yaml": // the user's
			args = append(args, chartOf("bourse-agent/values-hub.yaml"))
			args = append(args, least(chart)...)
		default:
			args = append(args, word)
		}
	}
	out, err := helm(t, "", args...)
	if err != nil {
		t.Errorf("%q: %s", command, out)
	}
	return decoded(t, out)
}

// Helm renders each command of the pages with exactly its flags.
func TestPagesHelmCommands(t *testing.T) {
	installs := 0
	for _, page := range pages {
		for _, command := range commandsOf(t, page, "helm") {
			switch {
			case slices.Contains(command, "uninstall"):
				if out, err := helm(t, "", append(command[1:], "--help")...); err != nil {
					t.Errorf("%q: %s", command, out)
				}
			case slices.ContainsFunc(command, func(word string) bool { return strings.HasPrefix(word, "charts/") }):
				if objects := templated(t, command); len(objects) == 0 {
					t.Errorf("%q renders nothing", command)
				}
				installs++
			}
		}
		for _, flags := range append(commandsOf(t, page, "--set"), commandsOf(t, page, "-f")...) {
			isOf := func(chart string) bool { // a chart refuses values that it does not know
				args := append([]string{"template", "any", chartOf(chart), "--kube-version=1.30.0"}, least(chart)...)
				for _, word := range flags {
					args = append(args, strings.Replace(word, "charts/", chartsDir+"/", 1))
				}
				_, err := helm(t, "", args...)
				return err == nil
			}
			if !isOf("bourse-agent") && !isOf("bourse-broker") {
				t.Errorf("%s: no chart takes %q", page, flags)
			}
		}
	}
	if installs < 10 {
		t.Errorf("only %d commands were found", installs)
	}
}

// The broker of the two kind clusters listens at one number everywhere, and its tokens have the address of the node. No
// node pulls its image, which kind loaded.
func TestPagesKindCommand(t *testing.T) {
	var command []string
	for _, c := range commandsOf(t, pages[0], "helm") {
		if slices.Contains(c, "kind-milan") {
			command = c
		}
	}
	var service *corev1.Service
	var container map[string]any
	for _, o := range templated(t, command) {
		switch o.GetKind() {
		case "Service":
			service = &corev1.Service{}
			if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, service); err != nil {
				t.Fatal(err)
			}
		case "StatefulSet":
			all, _, _ := unstructured.NestedSlice(o.Object, "spec", "template", "spec", "containers")
			container = all[0].(map[string]any)
		}
	}
	if service == nil || service.Spec.Type != corev1.ServiceTypeNodePort || service.Spec.Ports[0].Port != 30743 ||
		service.Spec.Ports[0].NodePort != 30743 {
		t.Errorf("the Service is %+v", service)
	}
	args, _, _ := unstructured.NestedStringSlice(container, "args")
	if !slices.Contains(args, "--host=172.18.0.2") || !slices.Contains(args, "--listen=:30743") {
		t.Errorf("the broker starts with %q", args)
	}
	if container["image"] != "localhost/bourse:VERSION" || container["imagePullPolicy"] != nil {
		t.Errorf("its image is %v, pulled %v", container["image"], container["imagePullPolicy"])
	}
}

// The program knows each command and each flag of the pages.
func TestPagesBourseCommands(t *testing.T) {
	for _, page := range pages {
		for _, command := range commandsOf(t, page, "bourse") {
			c, args, err := cli.Root(io.Discard, io.Discard).Find(command[1:])
			if err == nil {
				err = c.ParseFlags(args)
			}
			if err != nil || c.HasSubCommands() && c.Flags().NArg() > 0 {
				t.Errorf("%q: %s has no command %q, %v", command, c.CommandPath(), c.Flags().Args(), err)
			}
		}
	}
}
