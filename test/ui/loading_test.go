package ui

import (
	"net/http"
	"strings"
	"sync"
	"testing"

	"k8s.io/client-go/rest"

	"github.com/bourse-dev/bourse/internal/ui"
	"github.com/bourse-dev/bourse/test/ui/browser"
)

// silent keeps the sessions of a user waiting, so that every question to the agent waits.
type silent struct {
	next     http.RoundTripper
	released chan struct{}
}

// RoundTrip implements http.RoundTripper.
func (s silent) RoundTrip(r *http.Request) (*http.Response, error) {
	if strings.HasSuffix(r.URL.Path, "sessions") {
		select {
		case <-s.released:
		case <-r.Context().Done():
			return nil, r.Context().Err()
		}
	}
	return s.next.RoundTrip(r)
}

// slow serves rome's pages. Its agent answers once release is called.
func slow(t *testing.T) (s *ui.Server, release func()) {
	t.Helper()
	released := make(chan struct{})
	release = sync.OnceFunc(func() { close(released) })
	t.Cleanup(release)
	config := rest.CopyConfig(shared.config(t, "rome", ""))
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return silent{next, released} })
	return shared.pagesOf(t, config, "rome", nil), release
}

const loadsClusters = "Loading the clusters: the agent is asked through the API server since "

// A page whose agent is slow is there at once, and says what it waits for. Then it has the rows, by no reload.
func TestASlowAgent(t *testing.T) {
	t.Parallel()
	s, release := slow(t)
	b := tab(t, s, 1280)
	must(t, b.Go("/clusters"))
	must(t, b.See(loadsClusters))
	must(t, b.See("Problems are loading"))
	lookAt(t, b, []string{"/", "/brokers", "/clusters/milan", "/find?cpu=1"})
	must(t, b.Go("/clusters"))
	must(t, b.Wait(`document.querySelector("main").innerText.includes("Loading the clusters") && (window.same = true)`))
	release()
	must(t, b.Wait(`document.getElementById("cluster-milan") !== null`))
	must(t, b.Wait(`!document.body.innerText.includes("Loading") && !document.body.innerText.includes("are loading")`))
	if same, err := browser.Eval[bool](b, `window.same === true`); err != nil || !same {
		t.Errorf("the page was loaded again: %v", err)
	}
}

// An open form that waits for what it is about shows it, once it is there.
func TestAFormOfASlowAgent(t *testing.T) {
	s, release := slow(t)
	b := tab(t, s, 1280)
	must(t, b.Go("/clusters/milan?panel=evict"))
	must(t, b.See("Loading what the cluster can do here"))
	release()
	must(t, b.See("It has no reservation here."))
}

// Without script a page reads itself again while something loads, unless the user may be typing into it.
func TestASlowAgentWithoutScript(t *testing.T) {
	t.Parallel()
	s, release := slow(t)
	b := tab(t, s, 1280)
	must(t, b.Script(false))
	must(t, b.Go("/brokers?panel=add"))
	must(t, b.See("It does not reload by itself"))
	must(t, b.Wait(`!document.querySelector("meta[http-equiv=refresh]")`))
	must(t, b.Go("/clusters"))
	must(t, b.See(loadsClusters))
	must(t, b.Wait(`!!document.querySelector("meta[http-equiv=refresh]")`))
	release()
	must(t, b.Wait(`document.getElementById("cluster-milan") !== null`))
	must(t, b.Wait(`!document.querySelector("meta[http-equiv=refresh]")`))
}
