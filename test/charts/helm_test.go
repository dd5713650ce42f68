package charts

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/bourse-dev/bourse/test/lab"
)

// image names an image, as each installation must.
const image = "--set=image.repository=registry.example/bourse,image.tag=v1"

var built struct {
	once sync.Once
	path string
	err  error
}

// is4 is whether Helm 4 installs the charts, with HELM=4. Otherwise Helm 3 does.
var is4 = os.Getenv("HELM") == "4"

// installing begins the command that installs a chart over objects that kubectl applied. The server-side apply of Helm 4
// would conflict with the fields of kubectl.
func installing(more ...string) []string {
	if is4 {
		more = append([]string{"--server-side=false"}, more...)
	}
	return append([]string{"install"}, more...)
}

// helm runs helm against a cluster, and returns what it prints. kubeconfig may be empty for what needs none.
func helm(t *testing.T, kubeconfig string, args ...string) (string, error) {
	t.Helper()
	if testing.Short() {
		t.Skip("builds Helm the first time")
	}
	built.once.Do(func() {
		if is4 {
			built.path, built.err = lab.Helm4(t.Context(), os.Stderr)
		} else {
			built.path, built.err = lab.Helm(t.Context(), os.Stderr)
		}
	})
	if built.err != nil {
		t.Fatal(built.err)
	}
	home := t.TempDir()
	out, err := run(t, []string{"HOME=" + home, "KUBECONFIG=" + kubeconfig, "HELM_CACHE_HOME=" + home,
		"HELM_CONFIG_HOME=" + home, "HELM_DATA_HOME=" + home}, built.path, args...)
	return out, err
}

// run runs a program, and returns its output. Of one that fails it returns all that it printed.
func run(t *testing.T, env []string, program string, args ...string) (string, error) {
	t.Helper()
	var out, said bytes.Buffer
	cmd := exec.CommandContext(t.Context(), program, args...)
	cmd.Env, cmd.Stdout, cmd.Stderr = append(os.Environ(), env...), &out, &said
	if err := cmd.Run(); err != nil {
		return out.String() + said.String(), err
	}
	return out.String(), nil
}

// rendered is what a chart renders, for the oldest Kubernetes that it takes.
func rendered(t *testing.T, chart string, args ...string) string {
	t.Helper()
	out, err := helm(t, "", append([]string{"template", "any-name", chartOf(chart), "--kube-version=1.30.0"}, args...)...)
	if err != nil {
		t.Fatalf("helm template %s %q: %s", chart, args, out)
	}
	return out
}

func chartOf(name string) string { return filepath.Join(chartsDir, name) }

func decoded(t *testing.T, text string) (all []*unstructured.Unstructured) {
	t.Helper()
	for document := range strings.SplitSeq("\n"+text, "\n---\n") {
		o := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(document), &o.Object); err != nil {
			t.Fatalf("%v in\n%s", err, document)
		}
		if len(o.Object) > 0 {
			all = append(all, o)
		}
	}
	return all
}
