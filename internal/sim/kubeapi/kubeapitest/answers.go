package kubeapitest

import (
	"bufio"
	"encoding/json"
	"io"
	"net/http"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
)

// asTable is what kubectl get accepts.
const asTable = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json;as=Table;v=v1beta1;g=meta.k8s.io," +
	"application/json"

// open sends a GET of a path, and accepts some forms of an answer.
func (s *suite) open(path, accept string) io.ReadCloser {
	s.Helper()
	client, err := rest.HTTPClientFor(s.cfg)
	s.ok(err)
	server, _, err := rest.DefaultServerUrlFor(s.cfg)
	s.ok(err)
	r, err := http.NewRequestWithContext(s.ctx, http.MethodGet, strings.TrimSuffix(server.String(), "/")+path, nil)
	s.ok(err)
	r.Header.Set("Accept", accept)
	answer, err := client.Do(r)
	s.ok(err)
	if answer.StatusCode != http.StatusOK {
		s.Fatalf("GET %s: %s", path, answer.Status)
	}
	return answer.Body
}

// tableAt returns the table at a path, with the objects of its rows as they came.
func (s *suite) tableAt(path string) metav1.Table {
	s.Helper()
	body := s.open(path, asTable)
	defer body.Close()
	var t metav1.Table
	s.ok(json.NewDecoder(body).Decode(&t))
	return t
}

// cellsOf returns the cells of rows but the last, which is an age.
func cellsOf(t metav1.Table) (cells [][]any) {
	for _, row := range t.Rows {
		cells = append(cells, row.Cells[:len(row.Cells)-1])
	}
	return cells
}

// testTables reads what kubectl get prints.
func testTables(s *suite) {
	s.makeGadgets()
	const path = "/apis/kubeapitest.bourse.dev/v1/namespaces/NS/gadgets"
	at := strings.Replace(path, "NS", s.ns, 1)
	all := s.tableAt(at)
	s.equal([]string{all.Kind, all.APIVersion}, []string{"Table", "meta.k8s.io/v1"}, "kind")
	var heads []string
	for _, c := range all.ColumnDefinitions {
		heads = append(heads, c.Name+" "+c.Type)
	}
	s.equal(strings.Join(heads, ", "),
		"Name string, Size integer, Color string, Ready string, Tags string, Age date", "columns")
	s.equal(all.ColumnDefinitions[2].Description, "how it looks", "description")
	s.equal(all.ColumnDefinitions[4].Priority, 1, "priority")
	s.equal(cellsOf(all), [][]any{{"a", 1, "red", "True", nil}, {"b", 2, "green", nil, `["x","y"]`}}, "cells")
	var row struct {
		Kind     string
		Metadata metav1.ObjectMeta
		Spec     any
	}
	s.ok(json.Unmarshal(all.Rows[0].Object.Raw, &row))
	s.equal([]any{row.Kind, row.Metadata.Name, row.Spec}, []any{"PartialObjectMetadata", "a", nil}, "the object of a row")
	single := s.tableAt(at + "/b?includeObject=Object")
	s.equal(len(single.Rows), 1, "rows of one object")
	s.ok(json.Unmarshal(single.Rows[0].Object.Raw, &row))
	s.equal([]any{row.Kind, row.Spec.(object)["size"]}, []any{"Gadget", 2}, "the whole object of a row")
	none := s.tableAt(at + "?includeObject=None&labelSelector=none")
	s.equal(len(none.Rows)+len(none.ColumnDefinitions), 6, "columns of no objects")
	ages := s.tableAt("/api/v1/namespaces/" + s.ns + "/configmaps?fieldSelector=metadata.name%3Dnone")
	s.equal(ages.ColumnDefinitions[0].Name, "Name", "first column of a built-in type")
	s.equal(ages.ColumnDefinitions[len(ages.ColumnDefinitions)-1].Name, "Age", "and its last one")
}

func (s *suite) makeGadgets() {
	s.Helper()
	a, err := s.gadgets().Create(s.ctx, gadget("a", object{"size": int64(1)}), metav1.CreateOptions{})
	s.ok(err)
	a.Object["status"] = object{"conditions": []any{object{"type": "Ready", "status": "True"}}}
	_, err = s.gadgets().UpdateStatus(s.ctx, a, metav1.UpdateOptions{})
	s.ok(err)
	_, err = s.gadgets().Create(s.ctx, gadget("b", object{"size": int64(2), "color": "green", "tags": []any{"x", "y"}}),
		metav1.CreateOptions{})
	s.ok(err)
}

// testTableWatch reads what kubectl get --watch prints.
func testTableWatch(s *suite) {
	s.makeGadgets()
	body := s.open("/apis/kubeapitest.bourse.dev/v1/namespaces/"+s.ns+"/gadgets?watch=true", asTable)
	defer body.Close()
	lines := bufio.NewScanner(body)
	next := func() (kind string, t metav1.Table) {
		s.Helper()
		if !lines.Scan() {
			s.Fatalf("the watch ended: %v", lines.Err())
		}
		var e struct {
			Type   string
			Object metav1.Table
		}
		s.ok(json.Unmarshal(lines.Bytes(), &e))
		return e.Type, e.Object
	}
	for i, name := range []string{"a", "b"} {
		kind, t := next()
		s.equal([]any{kind, t.Kind, t.Rows[0].Cells[0]}, []any{"ADDED", "Table", name}, "what there was")
		s.equal(len(t.ColumnDefinitions), []int{6, 0}[i], "columns, which the first event has alone")
	}
	s.ok(s.gadgets().Delete(s.ctx, "a", metav1.DeleteOptions{}))
	kind, t := next()
	s.equal([]any{kind, cellsOf(t)}, []any{"DELETED", [][]any{{"a", 1, "red", "True", nil}}}, "what was deleted")
}

// testMetadata reads, writes and watches metadata alone.
func testMetadata(s *suite) {
	s.makeGadgets()
	client, err := metadata.NewForConfig(s.cfg)
	s.ok(err)
	gadgets := client.Resource(version.WithResource("gadgets")).Namespace(s.ns)
	a, err := gadgets.Get(s.ctx, "a", metav1.GetOptions{})
	s.ok(err)
	s.equal(a.Name, "a", "name")
	body := s.open("/apis/kubeapitest.bourse.dev/v1/namespaces/"+s.ns+"/gadgets/a",
		"application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1")
	defer body.Close()
	var raw object
	s.ok(json.NewDecoder(body).Decode(&raw))
	s.equal([]any{raw["kind"], raw["apiVersion"], raw["spec"]},
		[]any{"PartialObjectMetadata", "meta.k8s.io/v1", nil}, "what comes")
	all, err := gadgets.List(s.ctx, metav1.ListOptions{})
	s.ok(err)
	s.equal([]any{len(all.Items), all.Items[1].Name}, []any{2, "b"}, "all")
	w, err := gadgets.Watch(s.ctx, metav1.ListOptions{ResourceVersion: all.ResourceVersion})
	s.ok(err)
	defer w.Stop()
	patched, err := gadgets.Patch(s.ctx, "a", "application/merge-patch+json",
		[]byte(`{"metadata":{"labels":{"k":"v"}}}`), metav1.PatchOptions{})
	s.ok(err)
	s.equal(patched.Labels, map[string]string{"k": "v"}, "labels after a patch")
	if e := <-w.ResultChan(); e.Object.(*metav1.PartialObjectMetadata).Labels["k"] != "v" {
		s.Errorf("the watch says %+v", e)
	}
}

// testDeleteMany deletes a collection.
func testDeleteMany(s *suite) {
	for _, name := range []string{"a", "b", "c"} {
		w := widget(name, nil)
		if name == "c" {
			w.SetFinalizers([]string{"bourse.dev/one"})
		}
		w.SetLabels(map[string]string{"name": name})
		s.create(w)
	}
	s.ok(s.widgets.DeleteCollection(s.ctx, metav1.DeleteOptions{DryRun: []string{metav1.DryRunAll}}, metav1.ListOptions{}))
	s.equal(s.names(metav1.ListOptions{}), []string{"a", "b", "c"}, "after a dry run")
	s.ok(s.widgets.DeleteCollection(s.ctx, metav1.DeleteOptions{}, metav1.ListOptions{LabelSelector: "name!=b"}))
	s.equal(s.names(metav1.ListOptions{}), []string{"b", "c"}, "those that did not match, or have a finalizer")
	s.equal(s.get("c").GetDeletionTimestamp() != nil, true, "whether the other one is being deleted")
	s.ok(s.widgets.DeleteCollection(s.ctx, metav1.DeleteOptions{}, metav1.ListOptions{}))
	s.equal(s.names(metav1.ListOptions{}), []string{"c"}, "those that have a finalizer")
	_, err := s.patch("c", "application/merge-patch+json", object{"metadata": object{"finalizers": nil}})
	s.ok(err)
}
