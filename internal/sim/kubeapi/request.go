package kubeapi

import (
	"errors"
	"io"
	"net/http"
	"net/url"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	internalscheme "k8s.io/apimachinery/pkg/apis/meta/internalversion/scheme"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// maxBody is the real server's limit of a request.
const maxBody = 3 << 20

// request is an HTTP request, understood.
type request struct {
	user        User
	verb        string // as RBAC names it
	table       *table
	alias       *Type  // as which objects are sent and answered; nil: as they are stored
	subresource string // "" or "status"
	key         types.NamespacedName
	query       url.Values
	form        form                // of the objects in the answer
	options     metav1.PatchOptions // what create and update have of them, too
	header      http.Header
	body        []byte

	created  bool     // set when that is what happened
	warnings []string // for the client, beside the answer
}

// understand reads /api/v1/... and /apis/GROUP/VERSION/..., which go on as
// [namespaces/NS/]RESOURCE[/NAME[/status]].
func (a *API) understand(r *http.Request, u User) (*request, error) {
	q := &request{user: u, query: r.URL.Query(), header: r.Header, form: formOf(r.Header.Get("Accept"))}
	path := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	var gv schema.GroupVersion
	switch {
	case path[0] == "api" && len(path) > 2:
		gv.Version, path = path[1], path[2:]
	case path[0] == "apis" && len(path) > 3:
		gv.Group, gv.Version, path = path[1], path[2], path[3:]
	default:
		return nil, unknownPath(r)
	}
	// /namespaces/NS/status is the status of a namespace, not a resource in it.
	if path[0] == "namespaces" && len(path) > 2 && !(gv.Group == "" && len(path) == 3 && path[2] == "status") {
		q.key.Namespace, path = path[1], path[2:]
	}
	q.table = a.table(gv.WithResource(path[0]).GroupResource())
	if len(path) > 1 {
		q.key.Name = path[1]
	}
	if len(path) > 2 {
		q.subresource = path[2]
	}
	switch t := q.table; {
	case t == nil, t.GroupVersion != gv, len(path) > 3,
		q.subresource != "" && (q.subresource != "status" || !t.Status),
		q.key.Namespace != "" && !t.Namespaced:
		return nil, unknownPath(r)
	}
	if q.table.aliases != nil {
		q.alias, q.table = &q.table.Type, a.table(coreEvents)
	}
	if err := q.setVerb(r); err != nil {
		return nil, err
	}
	if err := internalscheme.ParameterCodec.DecodeParameters(q.query, metav1.SchemeGroupVersion, &q.options); err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	var err error
	if q.body, err = readBody(r); q.alias != nil {
		q.body = q.alias.stored(q.body)
	}
	return q, err
}

// readBody returns what a request sends. Errors: RequestEntityTooLarge.
func readBody(r *http.Request) ([]byte, error) {
	if r.Body == nil {
		return nil, nil
	}
	body, err := io.ReadAll(io.LimitReader(r.Body, maxBody+1))
	if len(body) > maxBody {
		err = apierrors.NewRequestEntityTooLargeError("limit is 3 MiB")
	}
	return body, err
}

func (q *request) setVerb(r *http.Request) error {
	single := map[string]string{"GET": "get", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}
	whole := map[string]string{"GET": "list", "POST": "create", "DELETE": "deletecollection"}
	verbs := whole
	if q.key.Name != "" {
		verbs = single
	}
	q.verb = verbs[r.Method]
	if watch := q.query.Get("watch"); q.verb == "list" && (watch == "true" || watch == "1") {
		q.verb = "watch"
	}
	nowhere := q.table.Namespaced && q.key.Namespace == "" && q.verb != "list" && q.verb != "watch"
	if q.verb == "" || nowhere || q.subresource != "" && q.verb == "delete" {
		return apierrors.NewMethodNotSupported(q.table.groupResource(), strings.ToLower(r.Method))
	}
	return nil
}

// resource is what RBAC calls it: "pods", "pods/status".
func (q *request) resource() string {
	if q.subresource != "" {
		return q.table.Resource + "/" + q.subresource
	}
	return q.table.Resource
}

// manager is whom fields that this request sets belong to.
func (q *request) manager() string {
	if q.options.FieldManager != "" {
		return q.options.FieldManager
	}
	name, _, _ := strings.Cut(q.header.Get("User-Agent"), "/")
	return name
}

func (q *request) dryRun() bool { return len(q.options.DryRun) > 0 }

func (q *request) notFound() error {
	return apierrors.NewNotFound(q.table.groupResource(), q.key.Name)
}

func (q *request) conflict(why string) error {
	return apierrors.NewConflict(q.table.groupResource(), q.key.Name, errors.New(why))
}

func (q *request) invalid(errs ...*field.Error) error {
	return apierrors.NewInvalid(q.table.gvk().GroupKind(), q.key.Name, errs)
}

func unknownPath(r *http.Request) error {
	return apierrors.NewGenericServerResponse(http.StatusNotFound, r.Method, schema.GroupResource{}, "", "", 0, true)
}
