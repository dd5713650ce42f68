package vnp

import (
	"encoding/json"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/amounts"
	"github.com/bourse-dev/bourse/internal/payload"
)

// Annotations of the requests of a VirtualNodePool. The agent sets them.
const (
	// DrainAnnotation "true" says that the reservation ends once its virtual node is empty: it is
	// cordoned, and its pods are evicted within their PodDisruptionBudgets.
	DrainAnnotation = api.Group + "/drain"
	// WishAnnotation is the size that the virtual node is to have while the reservation has more, as JSON.
	WishAnnotation = api.Group + "/wish"
	// SucceedsAnnotation is the UID of the request at the same provider that ends once this one is bound.
	SucceedsAnnotation = api.Group + "/succeeds"
)

// ReadWish returns the wish of a request, nil if it has none.
func ReadWish(r *api.ResourceRequest) amounts.List {
	var size api.Resources
	if payload.Unmarshal([]byte(r.Annotations[WishAnnotation]), &size) != nil {
		return nil
	}
	wish, err := amounts.ParseRequest(WishAnnotation, size)
	if err != nil {
		return nil
	}
	return wish
}

// WriteWish returns the value of WishAnnotation for a size, empty for nil.
func WriteWish(size amounts.List) string {
	if size == nil {
		return ""
	}
	text, _ := json.Marshal(size.Resources()) // quantities have no text that fails
	return string(text)
}

// Owners returns the VirtualNodePool of each namespace: the oldest that names it.
func Owners(pools []api.VirtualNodePool) map[string]string {
	oldest := map[string]*api.VirtualNodePool{}
	for i := range pools {
		pool := &pools[i]
		for _, name := range pool.Spec.Namespaces {
			if o := oldest[name]; o == nil || older(pool, o) {
				oldest[name] = pool
			}
		}
	}
	out := map[string]string{}
	for name, pool := range oldest {
		out[name] = pool.Name
	}
	return out
}

func older(a, b *api.VirtualNodePool) bool {
	if !a.CreationTimestamp.Equal(&b.CreationTimestamp) {
		return a.CreationTimestamp.Before(&b.CreationTimestamp)
	}
	return a.Name < b.Name
}
