package kubeapi

import (
	"bytes"
	"encoding/json"
	"fmt"
	"mime"
	"strconv"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metatable "k8s.io/apimachinery/pkg/api/meta/table"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/jsonpath"
)

// form is how a client wants objects to be answered.
type form int

const (
	whole     form = iota
	asMeta         // PartialObjectMetadata
	asTable        // with the columns of the type: kubectl get
	unheading      // a table without its columns: all of a watch but the first
)

// formOf returns the first form that an Accept header names and that there is. Answers are always JSON.
func formOf(accept string) form {
	for wanted := range strings.SplitSeq(accept, ",") {
		media, p, err := mime.ParseMediaType(wanted)
		known := p["g"] == metav1.GroupName && p["v"] == "v1"
		switch {
		case err != nil || media != "application/json":
		case p["as"] == "":
			return whole
		case known && (p["as"] == "PartialObjectMetadata" || p["as"] == "PartialObjectMetadataList"):
			return asMeta
		case known && p["as"] == "Table":
			return asTable
		}
	}
	return whole
}

// show returns an object as the client wants it.
func (q *request) show(o *object) json.RawMessage {
	switch q.form {
	case asMeta:
		return marshal(partial(o))
	case asTable, unheading:
		return marshal(q.tableOf([]*object{o}, o.revision))
	}
	if q.alias != nil {
		return q.alias.shown(o)
	}
	return o.raw
}

// shownAs is the type of the objects in the answer.
func (q *request) shownAs() Type {
	if q.alias != nil {
		return *q.alias
	}
	return q.table.Type
}

// showList returns a list of objects as the client wants it.
func (q *request) showList(found []*object, revision uint64) []byte {
	kind, version := q.shownAs().Kind+"List", q.shownAs().GroupVersion.String()
	switch q.form {
	case asMeta:
		kind, version = "PartialObjectMetadataList", metav1.SchemeGroupVersion.String()
	case asTable:
		return marshal(q.tableOf(found, revision))
	}
	var b bytes.Buffer
	fmt.Fprintf(&b, `{"kind":"%s","apiVersion":"%s","metadata":{"resourceVersion":"%d"},"items":[`,
		kind, version, revision)
	for i, o := range found {
		if i > 0 {
			b.WriteByte(',')
		}
		b.Write(q.show(o))
	}
	b.WriteString("]}")
	return b.Bytes()
}

// partial returns the metadata of an object.
func partial(o *object) map[string]any {
	return map[string]any{"kind": "PartialObjectMetadata", "apiVersion": metav1.SchemeGroupVersion.String(),
		"metadata": o.decoded().Object["metadata"]}
}

// tableOf makes a table with a row for each object.
func (q *request) tableOf(found []*object, revision uint64) *metav1.Table {
	t := &metav1.Table{Rows: []metav1.TableRow{}}
	t.Kind, t.APIVersion = "Table", metav1.SchemeGroupVersion.String()
	t.ResourceVersion = strconv.FormatUint(revision, 10)
	columns := q.table.columns
	if len(columns) == 0 {
		columns = []apiextensionsv1.CustomResourceColumnDefinition{age}
	}
	if q.form == asTable {
		t.ColumnDefinitions = []metav1.TableColumnDefinition{{Name: "Name", Type: "string", Format: "name",
			Description: "name of the object"}}
		for _, c := range columns {
			t.ColumnDefinitions = append(t.ColumnDefinitions, metav1.TableColumnDefinition{Name: c.Name, Type: c.Type,
				Format: c.Format, Description: c.Description, Priority: c.Priority})
		}
	}
	for _, o := range found {
		content := o.decoded().Object
		row := metav1.TableRow{Cells: []any{o.key.Name}}
		for _, c := range columns {
			row.Cells = append(row.Cells, cell(c, content))
		}
		switch metav1.IncludeObjectPolicy(q.query.Get("includeObject")) {
		case metav1.IncludeObject:
			row.Object.Raw = o.raw
		case metav1.IncludeMetadata, "":
			row.Object.Raw = marshal(partial(o))
		}
		t.Rows = append(t.Rows, row)
	}
	return t
}

// age is the column of types that have no others.
var age = apiextensionsv1.CustomResourceColumnDefinition{Name: "Age", Type: "date",
	JSONPath: ".metadata.creationTimestamp"}

// cell returns what an object has in a column; nil if it has nothing there, or something of another type.
func cell(c apiextensionsv1.CustomResourceColumnDefinition, content map[string]any) any {
	path := jsonpath.New(c.Name).AllowMissingKeys(true)
	if err := path.Parse("{" + c.JSONPath + "}"); err != nil {
		return nil
	}
	found, err := path.FindResults(content)
	if err != nil || len(found) == 0 || len(found[0]) == 0 {
		return nil
	}
	value := found[0][0].Interface()
	if value == nil {
		return nil
	}
	switch typed := value.(type) {
	case string:
		var at metav1.Time
		switch {
		case c.Type == "string":
			return typed
		case c.Type != "date":
			return nil
		case at.UnmarshalQueryParameter(typed) != nil:
			return "<invalid>"
		}
		return metatable.ConvertToHumanReadableDateType(at)
	case int64, float64, bool:
		if wanted := map[string]string{"integer": "int64", "number": "float64", "boolean": "bool"}[c.Type]; wanted ==
			fmt.Sprintf("%T", typed) {
			return typed
		}
	}
	if c.Type != "string" {
		return nil
	}
	var text bytes.Buffer
	if path.PrintResults(&text, found[0][:1]) != nil {
		return nil
	}
	return text.String()
}
