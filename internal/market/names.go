package market

import (
	"crypto/sha256"
	"encoding/base32"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/bourse-dev/bourse/api"
)

// ValidCluster checks a cluster ID. Errors: Invalid at field.
func ValidCluster(field, id string) error { return validName(field, id) }

func validName(field, name string) error {
	if errs := validation.IsDNS1123Label(name); len(errs) > 0 {
		return api.Invalid(field, "%.80q is not a valid name", name).Fix("%s", errs[0])
	}
	return nil
}

// SliceName returns the name of an account's ResourceSlice and virtual node, with at most 63 characters. Two
// accounts never share a name.
func SliceName(consumer, provider, pool string) string {
	return sliceName(consumer, provider, pool, "")
}

// SliceOf returns the name of the slice of an assignment. What a hub lends on has a slice for each key,
// so that the hub's customers cannot compute the name.
func SliceOf(a api.Assignment) string { return sliceName(a.Consumer, a.Provider, a.Pool, a.RelendKey) }

func sliceName(consumer, provider, pool, key string) string {
	text := consumer + "\x00" + provider + "\x00" + pool
	if key != "" {
		text += "\x00" + key
	}
	sum := sha256.Sum256([]byte(text))
	hash := strings.ToLower(base32.StdEncoding.EncodeToString(sum[:])[:16])
	return "b-" + strings.TrimRight(pool[:min(len(pool), 44)], "-") + "-" + hash
}

// IsSlice reports whether a name is that of a slice between two clusters, in any pool.
func IsSlice(name, consumer, provider string) bool {
	end := len(name) - 17
	return end > 2 && strings.HasPrefix(name, "b-") && name == SliceName(consumer, provider, name[2:end])
}
