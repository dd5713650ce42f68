package kubeapi

import (
	"net/http"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/version"
)

// discover answers what is asked about the server itself, and tells whether
// it did. Clients that offer aggregated discovery fall back to this form.
func (a *API) discover(w http.ResponseWriter, r *http.Request) bool {
	if strings.HasPrefix(r.URL.Path, "/openapi/v3") {
		return a.openAPI(w, r.URL.Path)
	}
	path := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	switch {
	case len(path) == 1 && (path[0] == "livez" || path[0] == "readyz" || path[0] == "healthz"):
		_, _ = w.Write([]byte("ok"))
	case len(path) == 1 && path[0] == "version":
		reply(w, http.StatusOK, marshal(version.Info{Major: "1", Minor: "35",
			GitVersion: "v1.35.0-simulated", Platform: "simulated"}))
	case len(path) == 1 && path[0] == "api":
		reply(w, http.StatusOK, marshal(metav1.APIVersions{TypeMeta: metav1.TypeMeta{Kind: "APIVersions"},
			Versions: []string{"v1"}}))
	case len(path) == 1 && path[0] == "apis":
		list := metav1.APIGroupList{TypeMeta: metav1.TypeMeta{Kind: "APIGroupList", APIVersion: "v1"}, Groups: a.groups()}
		reply(w, http.StatusOK, marshal(list))
	case len(path) == 2 && path[0] == "api":
		return a.discoverVersion(w, schema.GroupVersion{Version: path[1]})
	case len(path) == 3 && path[0] == "apis":
		return a.discoverVersion(w, schema.GroupVersion{Group: path[1], Version: path[2]})
	default:
		return false
	}
	return true
}

// groups are all but the core. Each has one version.
func (a *API) groups() (groups []metav1.APIGroup) {
	seen := map[string]bool{"": true}
	for _, t := range a.tables {
		if gv := t.GroupVersion; !seen[gv.Group] {
			seen[gv.Group] = true
			v := metav1.GroupVersionForDiscovery{GroupVersion: gv.String(), Version: gv.Version}
			groups = append(groups, metav1.APIGroup{Name: gv.Group, Versions: []metav1.GroupVersionForDiscovery{v},
				PreferredVersion: v})
		}
	}
	return groups
}

func (a *API) discoverVersion(w http.ResponseWriter, gv schema.GroupVersion) bool {
	list := metav1.APIResourceList{TypeMeta: metav1.TypeMeta{Kind: "APIResourceList", APIVersion: "v1"},
		GroupVersion: gv.String()}
	for _, t := range a.tables {
		if t.GroupVersion != gv {
			continue
		}
		list.APIResources = append(list.APIResources, metav1.APIResource{
			Name: t.Resource, SingularName: strings.ToLower(t.Kind),
			Namespaced: t.Namespaced, Kind: t.Kind, ShortNames: t.ShortNames, Categories: t.categories,
			Verbs: metav1.Verbs{"create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"},
		})
		if t.Status {
			list.APIResources = append(list.APIResources, metav1.APIResource{
				Name: t.Resource + "/status", Namespaced: t.Namespaced, Kind: t.Kind, Verbs: metav1.Verbs{"get", "patch", "update"},
			})
		}
	}
	if len(list.APIResources) == 0 {
		return false
	}
	reply(w, http.StatusOK, marshal(list))
	return true
}
