package liqo

import (
	"fmt"

	"k8s.io/apimachinery/pkg/util/version"
)

// Support says whether Bourse uses a version of Liqo.
type Support struct {
	// Untested: Bourse uses it, and was not tested with it.
	Untested bool
	// Refused says why Bourse does not use it; empty: it does.
	Refused string
}

// CheckSupport decides whether Bourse uses a version of Liqo. missing returns a field that the cluster's CRDs lack
// (MissingField); only a minor version newer than the tested one is asked for it. An unknown version is used.
// Errors: those of missing.
func CheckSupport(found string, missing func() (string, error)) (Support, error) {
	v, err := version.ParseSemantic(found)
	if err != nil || Minor(found) == Tested {
		return Support{}, nil
	}
	if v.LessThan(version.MustParseGeneric(Tested)) {
		return Support{Refused: fmt.Sprintf("Liqo %s is older than %s, the tested version", found, Tested)}, nil
	}
	field, err := missing()
	if err != nil || field == "" {
		return Support{Untested: err == nil}, err
	}
	return Support{Refused: fmt.Sprintf("the CRDs of Liqo %s lack %s, which Bourse uses; the tested version is %s",
		found, field, Tested)}, nil
}
