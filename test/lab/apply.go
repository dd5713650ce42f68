package lab

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/restmapper"
)

// ApplyFS applies every *.yaml in fsys and below, as Apply does, except kustomization.yaml.
func (c *Cluster) ApplyFS(ctx context.Context, fsys fs.FS) error {
	var manifests [][]byte
	err := fs.WalkDir(fsys, ".", func(name string, _ fs.DirEntry, err error) error {
		if err != nil || path.Ext(name) != ".yaml" || path.Base(name) == "kustomization.yaml" {
			return err
		}
		manifest, err := fs.ReadFile(fsys, name)
		manifests = append(manifests, manifest)
		return err
	})
	if err != nil {
		return err
	}
	return c.Apply(ctx, manifests...)
}

// Apply creates or updates, by server-side apply, the objects of YAML documents: namespaces and
// CustomResourceDefinitions first, then, when these are served, the others in their order. A
// namespaced object without a namespace goes to default. An admission policy is not in force at
// once: the API server sees it within a second.
func (c *Cluster) Apply(ctx context.Context, manifests ...[]byte) error {
	objects, err := decode(manifests)
	if err != nil {
		return err
	}
	slices.SortStableFunc(objects, func(a, b *unstructured.Unstructured) int { return rank(a) - rank(b) })
	first := slices.IndexFunc(objects, func(o *unstructured.Unstructured) bool { return rank(o) == others })
	if first < 0 {
		first = len(objects)
	}
	if err := c.applyAll(ctx, objects[:first]); err != nil {
		return err
	}
	if err := c.awaitServed(ctx, objects[:first]); err != nil {
		return err
	}
	return c.applyAll(ctx, objects[first:])
}

// What must exist before others can.
const (
	namespaces = iota
	definitions
	others
)

func rank(o *unstructured.Unstructured) int {
	switch o.GetKind() {
	case "Namespace":
		return namespaces
	case "CustomResourceDefinition":
		return definitions
	}
	return others
}

func decode(manifests [][]byte) ([]*unstructured.Unstructured, error) {
	var objects []*unstructured.Unstructured
	for _, manifest := range manifests {
		decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(manifest), 4096)
		for {
			o := &unstructured.Unstructured{}
			err := decoder.Decode(&o.Object)
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				return nil, fmt.Errorf("manifest: %w", err)
			}
			if len(o.Object) > 0 {
				objects = append(objects, o)
			}
		}
	}
	return objects, nil
}

// mapper finds the resource of a kind, as discovery shows it now.
func (c *Cluster) mapper() (meta.RESTMapper, error) {
	groups, err := restmapper.GetAPIGroupResources(c.client.Discovery())
	if err != nil {
		return nil, err
	}
	return restmapper.NewDiscoveryRESTMapper(groups), nil
}

func (c *Cluster) applyAll(ctx context.Context, objects []*unstructured.Unstructured) error {
	if len(objects) == 0 {
		return nil
	}
	client, err := dynamic.NewForConfig(c.admin)
	if err != nil {
		return err
	}
	mapper, err := c.mapper()
	if err != nil {
		return err
	}
	for _, o := range objects {
		if err := apply(ctx, client, mapper, o); err != nil {
			return fmt.Errorf("apply %s %q: %w", o.GetKind(), o.GetName(), err)
		}
	}
	return nil
}

func apply(ctx context.Context, client dynamic.Interface, mapper meta.RESTMapper, o *unstructured.Unstructured) error {
	kind := o.GroupVersionKind()
	mapping, err := mapper.RESTMapping(kind.GroupKind(), kind.Version)
	if err != nil {
		return err
	}
	var resource dynamic.ResourceInterface = client.Resource(mapping.Resource)
	if mapping.Scope.Name() == meta.RESTScopeNameNamespace {
		resource = client.Resource(mapping.Resource).Namespace(cmp.Or(o.GetNamespace(), metav1.NamespaceDefault))
	}
	_, err = resource.Apply(ctx, o.GetName(), o, metav1.ApplyOptions{FieldManager: "lab", Force: true})
	return err
}

// awaitServed waits until discovery shows the kinds that the definitions among objects define: it
// does when they are established.
func (c *Cluster) awaitServed(ctx context.Context, objects []*unstructured.Unstructured) error {
	var kinds []schema.GroupVersionKind
	for _, o := range objects {
		if rank(o) != definitions {
			continue
		}
		var crd apiextensionsv1.CustomResourceDefinition
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, &crd); err != nil {
			return fmt.Errorf("definition %q: %w", o.GetName(), err)
		}
		for _, v := range crd.Spec.Versions {
			if v.Served {
				kinds = append(kinds, schema.GroupVersionKind{Group: crd.Spec.Group, Version: v.Name, Kind: crd.Spec.Names.Kind})
			}
		}
	}
	if len(kinds) == 0 {
		return nil
	}
	return c.await(ctx, "the CustomResourceDefinitions to be served", func(context.Context) error {
		mapper, err := c.mapper()
		if err != nil {
			return err
		}
		for _, kind := range kinds {
			if _, err := mapper.RESTMapping(kind.GroupKind(), kind.Version); err != nil {
				return err
			}
		}
		return nil
	})
}
