package lab

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

var certManagerModule = module{"certmanager", "github.com/cert-manager/cert-manager"}

// CertManagerDefinitions are the CustomResourceDefinitions of the cert-manager that
// tools/certmanager pins. The first time it needs the module proxy.
func CertManagerDefinitions(ctx context.Context) ([][]byte, error) {
	dir, err := findSource(certManagerModule)
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, "go", "mod", "download", "-json", certManagerModule.versioned)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), "GOWORK=off")
	out, err := cmd.Output()
	var found struct{ Dir string }
	if err == nil {
		err = json.Unmarshal(out, &found)
	}
	if err != nil {
		return nil, fmt.Errorf("find cert-manager's definitions: %w: %s", err, out)
	}
	files, err := filepath.Glob(filepath.Join(found.Dir, "deploy", "crds", "*.yaml"))
	if err != nil || len(files) == 0 {
		return nil, fmt.Errorf("cert-manager's definitions: %d files, %w", len(files), err)
	}
	var all [][]byte
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		var crd unstructured.Unstructured
		if err := yaml.Unmarshal(text, &crd.Object); err != nil {
			return nil, fmt.Errorf("%s: %w", filepath.Base(file), err)
		}
		crd.SetLabels(nil) // templates of its chart
		encoded, err := crd.MarshalJSON()
		if err != nil {
			return nil, err
		}
		all = append(all, encoded)
	}
	return all, nil
}
