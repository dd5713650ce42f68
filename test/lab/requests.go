package lab

import (
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"time"
)

// Request is a request that an API server received, allowed or not.
type Request struct {
	Time time.Time
	// Verb as RBAC knows it: get, list, watch, create, update, patch, delete, deletecollection.
	Verb string
	// Resource as RBAC knows it, with its group: "pods", "nodes/status", "leases.coordination.k8s.io".
	Resource        string
	Namespace, Name string
	// User is who asked: "admin", "system:serviceaccount:NAMESPACE:NAME".
	User      string
	UserAgent string
	// URI tells the rest: client-go's informers list by a watch with sendInitialEvents=true.
	URI string
}

// Requests are those received since a time, in their order; a request that was answered is among
// them. Questions of health, discovery and version are not. A test that counts looks only at its
// own client's UserAgent or User: the cluster's own parts ask as well, until shortly after they
// have started.
func (c *Cluster) Requests(since time.Time) ([]Request, error) {
	log, err := os.Open(filepath.Join(c.dir, auditLog))
	if err != nil {
		return nil, err
	}
	defer log.Close()
	var requests []Request
	for decoder := json.NewDecoder(log); ; {
		var e auditEvent
		err := decoder.Decode(&e)
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) { // the last line may be half written
			return requests, nil
		}
		if err != nil {
			return nil, err
		}
		if !e.Received.Before(since) {
			requests = append(requests, e.request())
		}
	}
}

const auditLog = "audit.log"

// auditEvent is what is read here of an audit.k8s.io/v1 Event.
type auditEvent struct {
	Received  time.Time `json:"requestReceivedTimestamp"`
	Verb      string    `json:"verb"`
	URI       string    `json:"requestURI"`
	UserAgent string    `json:"userAgent"`
	User      struct {
		Username string `json:"username"`
	} `json:"user"`
	Object struct {
		Resource    string `json:"resource"`
		Group       string `json:"apiGroup"`
		Subresource string `json:"subresource"`
		Namespace   string `json:"namespace"`
		Name        string `json:"name"`
	} `json:"objectRef"`
}

func (e auditEvent) request() Request {
	resource := e.Object.Resource
	if e.Object.Group != "" {
		resource += "." + e.Object.Group
	}
	if e.Object.Subresource != "" {
		resource += "/" + e.Object.Subresource
	}
	return Request{
		Time: e.Received, Verb: e.Verb, Resource: resource, Namespace: e.Object.Namespace, Name: e.Object.Name,
		User: e.User.Username, UserAgent: e.UserAgent, URI: e.URI,
	}
}
