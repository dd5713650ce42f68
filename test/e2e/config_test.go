package e2e

import (
	"bytes"
	"context"
	"encoding/base64"
	"io"
	"io/fs"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/kubernetes/scheme"
	kube "sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/api/types"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/yaml"

	"github.com/bourse-dev/bourse/internal/cli"
	"github.com/bourse-dev/bourse/test/lab"
)

// Each kustomization in config applies as `kubectl apply -k` applies it, patches and images
// included. Each patch has a target. The pods of each workload are what the Pod Security level of
// their namespace and its ServiceAccounts allow, and the program knows their flags. No file in
// config is left out.
func TestConfigApplies(t *testing.T) {
	const root = "../../config"
	l := lab.Test(t)
	cluster, err := l.Cluster(t.Context(), lab.ClusterOptions{Name: "config"})
	if err != nil {
		t.Fatal(err)
	}
	objects, err := kube.New(cluster.Config(), kube.Options{Scheme: scheme.Scheme})
	if err != nil {
		t.Fatal(err)
	}
	definitions, err := lab.CertManagerDefinitions(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	// What the cluster has before: cert-manager and Liqo each have a namespace. Of Liqo no kind is needed.
	before := []byte("apiVersion: v1\nkind: Namespace\nmetadata: {name: cert-manager}\n---\napiVersion: v1\nkind: Namespace\nmetadata: {name: liqo}\n")
	if err := cluster.Apply(t.Context(), append(definitions, before)...); err != nil {
		t.Fatal(err)
	}

	files := &reads{FileSystem: filesys.MakeFsOnDisk(), seen: map[string]bool{}}
	var folders, all []string
	err = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() && filepath.Ext(path) != ".go" {
			all = append(all, must(filepath.Abs(path))(t))
			if d.Name() == "kustomization.yaml" {
				folders = append(folders, filepath.Dir(path))
			}
		}
		return err
	})
	if err != nil || len(folders) == 0 {
		t.Fatal("no kustomizations", err)
	}
	workloads := 0
	for _, folder := range folders { // in the order of their names: config/agent makes the namespace of others
		name, _ := filepath.Rel(root, folder)
		text := kustomized(t, files, folder)
		if err := cluster.Apply(t.Context(), text); err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		manifests := decoded(t, text)
		patched(t, name, must(files.ReadFile(filepath.Join(folder, "kustomization.yaml")))(t), manifests)
		for _, o := range manifests {
			if pod := podOf(t, o); pod != nil {
				workloads++
				runnable(t, name, objects, pod)
			}
		}
	}
	if workloads == 0 {
		t.Error("no kustomization has a workload")
	}
	request := base64.StdEncoding.EncodeToString([]byte("a request"))
	for file, change := range map[string]func([]byte) []byte{ // for admins to complete
		"broker/restore.yaml":                 func(text []byte) []byte { return text },
		"catalog/nsoffloading.yml":            func(text []byte) []byte { return text },
		"certmanager/member/agent.yaml":       func(text []byte) []byte { return text },
		"certmanager/member/certificate.yaml": func(text []byte) []byte { return text },
		"certmanager/member/request.yaml": func(text []byte) []byte {
			return bytes.ReplaceAll(text, []byte("REQUEST"), []byte(request))
		},
	} {
		text := must(files.ReadFile(filepath.Join(root, file)))(t)
		for _, o := range decoded(t, change(text)) {
			err := kube.WithFieldValidation(objects, "Strict").Create(t.Context(), o, kube.DryRunAll)
			if kube.IgnoreAlreadyExists(err) != nil { // a claim of the StatefulSet is there
				t.Errorf("%s: %v", file, err)
			}
		}
	}
	for _, patch := range []string{"mutating.yaml", "validating.yaml"} { // of Liqo's webhooks: test/policies applies them
		must(files.ReadFile(filepath.Join(root, "liqo-webhook", patch)))(t)
	}
	for _, file := range all {
		if !files.seen[file] {
			t.Errorf("%s is in no kustomization: list it there, or apply it in this test", file)
		}
	}
}

func must[T any](v T, err error) func(*testing.T) T {
	return func(t *testing.T) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

// kustomized is what `kubectl apply -k` applies.
func kustomized(t *testing.T, files filesys.FileSystem, folder string) []byte {
	t.Helper()
	built, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(files, folder)
	if err != nil {
		t.Fatalf("%s: %v", folder, err)
	}
	return must(built.AsYaml())(t)
}

// reads is a file system that remembers which files were read.
type reads struct {
	filesys.FileSystem
	seen map[string]bool
}

func (r *reads) ReadFile(path string) ([]byte, error) {
	if full, err := filepath.Abs(path); err == nil {
		r.seen[full] = true
	}
	return r.FileSystem.ReadFile(path)
}

func decoded(t *testing.T, text []byte) (all []*unstructured.Unstructured) {
	t.Helper()
	for _, document := range bytes.Split(text, []byte("\n---\n")) {
		o := &unstructured.Unstructured{}
		if err := yaml.Unmarshal(document, &o.Object); err != nil {
			t.Fatal(err)
		}
		if len(o.Object) > 0 {
			all = append(all, o)
		}
	}
	return all
}

// patched demands that each patch and each image of a kustomization changes something: kustomize
// ignores those that match nothing.
func patched(t *testing.T, name string, text []byte, built []*unstructured.Unstructured) {
	t.Helper()
	var k types.Kustomization
	if err := k.Unmarshal(text); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	whole := func(pattern, value string) bool {
		return pattern == "" || regexp.MustCompile("^(?:"+pattern+")$").MatchString(value)
	}
	for _, p := range k.Patches {
		if p.Target == nil {
			continue // kustomize itself demands the object
		}
		if !slices.ContainsFunc(built, func(o *unstructured.Unstructured) bool {
			return whole(p.Target.Kind, o.GetKind()) && whole(p.Target.Name, o.GetName()) &&
				whole(p.Target.Namespace, o.GetNamespace())
		}) {
			t.Errorf("%s: no object is the target of patch %+v", name, p.Target)
		}
	}
	for _, image := range k.Images {
		if !slices.ContainsFunc(built, func(o *unstructured.Unstructured) bool {
			pod := podOf(t, o)
			return pod != nil && pod.Spec.Containers[0].Image == image.NewName+":"+image.NewTag
		}) {
			t.Errorf("%s: no container runs image %s", name, image.Name)
		}
	}
}

// podOf is a pod as the controller of a workload would make it, under a name that no controller uses; nil for any
// other object.
func podOf(t *testing.T, o *unstructured.Unstructured) *corev1.Pod {
	t.Helper()
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: o.GetNamespace(), Name: o.GetName() + "-admitted"}}
	switch text := must(o.MarshalJSON())(t); o.GetKind() {
	case "Deployment":
		var d appsv1.Deployment
		if err := yaml.UnmarshalStrict(text, &d); err != nil {
			t.Fatal(err)
		}
		pod.Spec = d.Spec.Template.Spec
	case "StatefulSet":
		var s appsv1.StatefulSet
		if err := yaml.UnmarshalStrict(text, &s); err != nil {
			t.Fatal(err)
		}
		pod.Spec = s.Spec.Template.Spec
		for _, claim := range s.Spec.VolumeClaimTemplates {
			pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{Name: claim.Name, VolumeSource: corev1.VolumeSource{
				PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim.Name + "-" + pod.Name},
			}})
		}
	case "DaemonSet", "Job", "CronJob", "ReplicaSet", "Pod":
		t.Fatalf("a %s: teach this test what pods it makes", o.GetKind())
	default:
		return nil
	}
	return pod
}

// runnable demands that the API server admits a pod and that the program knows the flags of its containers.
func runnable(t *testing.T, name string, objects kube.Client, pod *corev1.Pod) {
	t.Helper()
	// once the namespace has its ServiceAccount
	eventually(t, name+": pod "+pod.Name+" is admitted", func(ctx context.Context) error {
		return objects.Create(ctx, pod.DeepCopy(), kube.DryRunAll)
	})
	for _, c := range pod.Spec.Containers {
		if c.Image == "bourse" {
			t.Errorf("%s: container %s runs an image that no registry has", name, c.Name)
		}
		if said := new(strings.Builder); cli.Main(append(slices.Clone(c.Args), "--help"), io.Discard, said) != 0 {
			t.Errorf("%s: container %s of %s: %s", name, c.Name, pod.Name, said)
		}
	}
}
