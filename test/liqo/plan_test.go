package liqo

import (
	"bytes"
	"context"
	"os/exec"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
	kube "sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/test/e2e/federation"
)

// What bourse reserve --dry-run prints, it makes nothing of; and each of the objects is there, so labelled, once the same is reserved.
func TestWhatADryRunPrintsIsMade(t *testing.T) {
	w := start(t)
	a := w.ask(t, w.rome, w.paris, "planned", amounts("1", "1Gi"))
	cmd := exec.CommandContext(t.Context(), w.Binary, "reserve", "--cpu", "1", "--memory", "1Gi", "--target", "paris", "-n", "planned", "--name", "planned",
		"--offload", "planned", "--dry-run", "--server", "unix://"+w.rome.Socket(0))
	cmd.Dir, cmd.Env = t.TempDir(), []string{"HOME=" + t.TempDir()}
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	t.Logf("%s", out)
	_, documents, _ := bytes.Cut(out, []byte("\n---\n"))
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
