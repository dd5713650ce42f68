package kubeapi

import (
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	internalscheme "k8s.io/apimachinery/pkg/apis/meta/internalversion/scheme"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// delete answers with the object while a finalizer keeps it, else with a Status.
func (a *API) delete(q *request) ([]byte, error) {
	options, err := q.deleteOptions()
	if err != nil {
		return nil, err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	o := q.table.objects[q.key]
	if o == nil {
		return nil, q.notFound()
	}
	if err := q.precondition(options.Preconditions, o); err != nil {
		return nil, err
	}
	if len(options.DryRun) == 0 {
		if o, err = a.remove(q.table, o); err != nil {
			return nil, err
		}
	}
	if q.table.objects[q.key] != nil {
		return q.show(o), nil
	}
	return marshal(metav1.Status{
		TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusSuccess,
		Details: &metav1.StatusDetails{Name: q.key.Name, Group: q.table.GroupVersion.Group,
			Kind: q.table.Resource, UID: o.uid},
	}), nil
}

// deleteMany answers with the objects that it deleted, or that finalizers keep.
func (a *API) deleteMany(q *request) ([]byte, error) {
	options, err := q.deleteOptions()
	if err != nil {
		return nil, err
	}
	s, err := q.selection()
	if err != nil {
		return nil, err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	found := q.table.matching(s.matches)
	for _, o := range found {
		o = q.table.current(o)
		if o == nil || len(options.DryRun) > 0 { // it went with another, which owned it
			continue
		}
		if err := q.precondition(options.Preconditions, o); err != nil {
			return nil, err
		}
		if _, err := a.remove(q.table, o); err != nil {
			return nil, err
		}
	}
	return q.showList(found, a.revision), nil
}

func (q *request) deleteOptions() (*metav1.DeleteOptions, error) {
	options := &metav1.DeleteOptions{}
	var err error
	if len(q.body) > 0 {
		kind := metav1.SchemeGroupVersion.WithKind("DeleteOptions")
		codecs := internalscheme.Codecs
		_, _, err = codecs.DecoderToVersion(codecs.UniversalDeserializer(),
			kind.GroupVersion()).Decode(q.body, &kind, options)
	} else {
		err = internalscheme.ParameterCodec.DecodeParameters(q.query, metav1.SchemeGroupVersion, options)
	}
	if err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	if errs := validation.ValidateDeleteOptions(options); len(errs) > 0 {
		return nil, apierrors.NewInvalid(schema.GroupKind{Group: metav1.GroupName, Kind: "DeleteOptions"}, "", errs)
	}
	return options, nil
}

func (q *request) precondition(p *metav1.Preconditions, o *object) error {
	switch revision := fmt.Sprint(o.revision); {
	case p != nil && p.UID != nil && *p.UID != o.uid:
		return q.conflict(fmt.Sprintf("precondition uid %s, the object has %s", *p.UID, o.uid))
	case p != nil && p.ResourceVersion != nil && *p.ResourceVersion != revision:
		return q.conflict(fmt.Sprintf("precondition resourceVersion %s, the object has %s", *p.ResourceVersion, revision))
	}
	return nil
}
