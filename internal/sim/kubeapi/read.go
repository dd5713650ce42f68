package kubeapi

import (
	"fmt"
	"strconv"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/internalversion"
	internalscheme "k8s.io/apimachinery/pkg/apis/meta/internalversion/scheme"
	internalvalidation "k8s.io/apimachinery/pkg/apis/meta/internalversion/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

func (a *API) get(q *request) (*object, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if o := q.table.objects[q.key]; o != nil {
		return o, nil
	}
	return nil, q.notFound()
}

func (a *API) list(q *request) ([]byte, error) {
	s, err := q.selection()
	if err != nil {
		return nil, err
	}
	a.mu.Lock()
	found, revision := q.table.matching(s.matches), a.revision
	a.mu.Unlock()
	return q.showList(found, revision), nil
}

// selection is which objects a list, watch or deletion of many concerns, and
// from when on.
type selection struct {
	internalversion.ListOptions
	namespace string // "" for all
	labels    labels.Selector
	fields    fields.Selector
	revision  uint64 // where a watch begins; 0 for now
}

func (q *request) selection() (*selection, error) {
	s := &selection{namespace: q.key.Namespace, labels: labels.Everything(), fields: fields.Everything()}
	if err := internalscheme.ParameterCodec.DecodeParameters(q.query,
		metav1.SchemeGroupVersion, &s.ListOptions); err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	internalversion.SetListOptionsDefaults(&s.ListOptions, true)
	if errs := internalvalidation.ValidateListOptions(&s.ListOptions, true); len(errs) > 0 {
		return nil, apierrors.NewInvalid(schema.GroupKind{Group: metav1.GroupName, Kind: "ListOptions"}, "", errs)
	}
	if s.LabelSelector != nil {
		s.labels = s.LabelSelector
	}
	if s.FieldSelector != nil {
		s.fields = s.FieldSelector
	}
	known := fields.Set{"metadata.name": "", "metadata.namespace": ""}
	for _, path := range q.table.fields {
		known[path] = ""
	}
	for _, r := range s.fields.Requirements() {
		if !known.Has(r.Field) {
			return nil, apierrors.NewBadRequest(fmt.Sprintf("field label not supported: %s", r.Field))
		}
	}
	if s.ResourceVersion == "" {
		return s, nil
	}
	var err error
	if s.revision, err = strconv.ParseUint(s.ResourceVersion, 10, 64); err != nil {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("resourceVersion %q is not a number", s.ResourceVersion))
	}
	return s, nil
}

func (s *selection) matches(o *object) bool {
	return o != nil && (s.namespace == "" || s.namespace == o.key.Namespace) &&
		s.labels.Matches(o.labels) && s.fields.Matches(o.fields)
}
