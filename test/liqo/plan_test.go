package liqo

import (
	"bytes"
	"context"
	"os/exec"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
	kube "sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/test/e2e/federation"
)

// What bourse reserve --dry-run prints, it makes nothing of. Once the same is reserved, told step
// by step, each of the objects is there.
func TestWhatADryRunPrintsIsMade(t *testing.T) {
	w := start(t)
	makeNamespace(t, w.rome, "planned")
	reserve := func(more ...string) []byte {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), w.Binary,
			append([]string{"reserve", "--cpu", "1", "--memory", "1Gi",
				"--target", "paris", "-n", "planned", "--name", "planned",
				"--offload", "planned", "--kubeconfig", w.rome.Cluster.Kubeconfig()}, more...)...)
		cmd.Dir, cmd.Env = t.TempDir(), []string{"HOME=" + t.TempDir()}
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		t.Logf("%s", out)
		return out
	}
	_, documents, _ := bytes.Cut(reserve("--dry-run"), []byte("\n---\n"))
	a := &asked{w, t, w.rome, &api.ResourceRequest{ObjectMeta: metav1.ObjectMeta{Namespace: "planned", Name: "planned"}}}
	if err := w.rome.Objects.Get(t.Context(), kube.ObjectKeyFromObject(a.request), a.request); !apierrors.IsNotFound(err) {
		t.Fatalf("the dry run made it: %v", err)
	}
	progress := reserve()
	for _, step := range []string{"paris is bound until", "Peered", "Granted", "NodeReady", "Active", "Offloaded"} {
		if !bytes.Contains(progress, []byte("\n  "+step)) {
			t.Errorf("%s is not told", step)
		}
	}
	a.becomes(api.Active)
	printed := 0
	for _, text := range bytes.Split(documents, []byte("\n---\n")) {
		o := &unstructured.Unstructured{}
		if err := yaml.Unmarshal(text, o); err != nil {
			t.Fatalf("%v: %s", err, text)
		}
		at := map[bool]*federation.Member{true: w.rome, false: w.paris}[bytes.HasPrefix(text, []byte("# in rome"))]
		if o.GetName() == "<reservation>" {
			o.SetName(a.request.Status.Reservation)
		}
		printed++
		eventually(t, o.GetKind()+" "+o.GetName()+" is in "+at.Name, func(ctx context.Context) error {
			made := o.DeepCopy()
			return at.Objects.Get(ctx, kube.ObjectKeyFromObject(o), made)
		})
	}
	if printed < 10 {
		t.Errorf("%d objects are printed", printed)
	}
	a.release()
	w.nothingLeft(t, w.rome, w.paris)
}
