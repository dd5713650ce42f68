package e2e

import (
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/bourse-dev/bourse/test/e2e/federation"
)

// answersLog is where an API server writes what it answered, as testdata/audit-policy.yaml says.
const answersLog = "answers.log"

// agentUser is who an agent is to its API server.
const agentUser = "system:serviceaccount:bourse:bourse-agent"

// answer is a request that an API server answered, or a watch that it began.
type answer struct {
	AuditID  string    `json:"auditID"`
	Received time.Time `json:"requestReceivedTimestamp"`
	Verb     string    `json:"verb"`
	User     struct {
		Username string `json:"username"`
	} `json:"user"`
	As struct { // the user that an admin impersonates
		Username string `json:"username"`
	} `json:"impersonatedUser"`
	Object struct {
		Group       string `json:"apiGroup"`
		Resource    string `json:"resource"`
		Subresource string `json:"subresource"`
		Namespace   string `json:"namespace"`
		Name        string `json:"name"`
	} `json:"objectRef"`
	Status struct {
		Code int `json:"code"`
	} `json:"responseStatus"`
}

// resource is what was asked for, as RBAC writes it.
func (a answer) resource() string {
	if a.Object.Subresource == "" {
		return a.Object.Resource
	}
	return a.Object.Resource + "/" + a.Object.Subresource
}

func (a answer) String() string {
	return a.Verb + " " + a.Object.Group + "/" + a.resource() + " " + a.Object.Namespace + "/" + a.Object.Name
}

// answers are those that a cluster's agents have got so far. A watch is one when it begins, and
// again when it ends.
func answers(t *testing.T, m *federation.Member) []answer {
	t.Helper()
	return answersOf(t, m, func(a answer) bool { return a.User.Username == agentUser })
}

// answersOf are those of which is true.
func answersOf(t *testing.T, m *federation.Member, is func(answer) bool) []answer {
	t.Helper()
	log, err := os.Open(filepath.Join(m.Cluster.Dir(), answersLog))
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	var all []answer
	for decoder := json.NewDecoder(log); ; {
		var a answer
		err := decoder.Decode(&a)
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) { // the last line may be half written
			return all
		}
		if err != nil {
			t.Fatal(err)
		}
		if is(a) {
			all = append(all, a)
		}
	}
}
