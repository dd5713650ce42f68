package kubeapitest

import (
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func testSelectors(s *suite) {
	for i, labels := range []map[string]string{{"app": "x"}, {"app": "y", "tier": "1"}, nil} {
		w := widget(fmt.Sprint("w", i), nil)
		w.SetLabels(labels)
		s.create(w)
	}
	for selector, want := range map[string][]string{
		"": {"w0", "w1", "w2"}, "app=x": {"w0"}, "app!=x": {"w1",
			"w2"}, "app in (x,y),tier": {"w1"}, "!app": {"w2"}, "app=z": nil,
	} {
		s.equal(s.names(metav1.ListOptions{LabelSelector: selector}), want, "labels "+selector)
	}
	s.equal(s.names(metav1.ListOptions{FieldSelector: "metadata.name=w1"}), []string{"w1"}, "field metadata.name")
	s.equal(s.names(metav1.ListOptions{FieldSelector: "metadata.name!=w1,metadata.namespace=" + s.ns}),
		[]string{"w0", "w2"}, "field metadata.name, not")
	for _, o := range []metav1.ListOptions{{FieldSelector: "spec.size=1"}, {LabelSelector: "a=b=c"}} {
		_, err := s.widgets.List(s.ctx, o)
		s.refused(err, apierrors.IsBadRequest, fmt.Sprint("selector ", o.FieldSelector, o.LabelSelector))
	}

	s.pod("p0", "kubeapitest-nowhere")
	s.pod("p1", "")
	for selector, want := range map[string]string{"spec.nodeName=kubeapitest-nowhere": "p0",
		"spec.nodeName=": "p1", "status.phase!=Pending": ""} {
		pods, err := s.kube.CoreV1().Pods(s.ns).List(s.ctx, metav1.ListOptions{FieldSelector: selector})
		s.ok(err)
		got := ""
		for _, p := range pods.Items {
			got += p.Name
		}
		s.equal(got, want, "pods, field "+selector)
	}

	all, err := s.dynamic.Resource(widgetsResource()).List(s.ctx,
		metav1.ListOptions{FieldSelector: "metadata.namespace=" + s.ns})
	s.ok(err)
	s.equal(len(all.Items), 3, "widgets of all namespaces that are in this one")
	s.equal([]string{all.GetKind(), all.GetAPIVersion()}, []string{"WidgetList", version.String()},
		"kind of a list")
}
