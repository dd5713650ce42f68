package liqo

import (
	_ "embed"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"k8s.io/client-go/openapi"

	"github.com/bourse-dev/bourse/internal/kubeobject"
	"github.com/bourse-dev/bourse/internal/liqoprotocol"
)

// fields are the fields of Liqo's kinds that Bourse reads or writes, one a line: apiVersion, kind, path (none where
// only the kind is used). The list has each field that internal/liqo and the packages below it name.
// TestLiqosFieldsAreThoseUsed in test/arch writes it.
//
//go:embed fields.txt
var fields string

// Served is what an API server serves of Liqo's kinds. The zero value lacks nothing.
type Served struct {
	// lacks has, by kind, the first thing of fields.txt that is not served: "Renew (authentication.liqo.io/v1beta1)"
	// for a kind, "Tenant.spec.csr (authentication.liqo.io/v1beta1)" for a field.
	lacks map[string]string
	// Protocol is what this cluster's Liqo exchanges with others.
	Protocol liqoprotocol.Protocol
}

// Complete reports whether nothing is missing.
func (s Served) Complete() bool { return len(s.lacks) == 0 }

// Probe reads what an API server serves of Liqo's kinds, in the OpenAPI documents that every authenticated client may
// read. It reads a document again once its digest has changed. Several goroutines may use it.
type Probe struct {
	OpenAPI openapi.Client

	mu      sync.Mutex
	digests string
	known   Served
}

// Served returns what the API server serves. Errors: those of the API server.
func (p *Probe) Served() (Served, error) {
	paths, err := p.OpenAPI.Paths()
	if err != nil {
		return Served{}, fmt.Errorf("the schemas of Liqo's kinds cannot be read: %w", err)
	}
	digests := "" // a document's address has its digest
	for _, path := range slices.Sorted(maps.Keys(paths)) {
		if strings.Contains(path, ".liqo.io/") {
			digests += paths[path].ServerRelativeURL() + "\n"
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if digests != "" && digests == p.digests {
		return p.known, nil
	}
	known, err := readServed(paths)
	if err != nil {
		return Served{}, err
	}
	p.digests, p.known = digests, known
	return known, nil
}

// readServed compares the documents of Liqo's groups with fields.txt.
func readServed(paths map[string]openapi.GroupVersion) (out Served, err error) {
	out.lacks = map[string]string{}
	byVersion := map[string]map[string]*kubeobject.Schema{}
	for line := range strings.Lines(fields) {
		version, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		kind, path, _ := strings.Cut(rest, " ")
		kinds, known := byVersion[version]
		if !known {
			if kinds, err = kubeobject.ReadSchemas(paths["apis/"+version]); err != nil {
				return out, fmt.Errorf("the schemas of %s cannot be read: %w", version, err)
			}
			byVersion[version] = kinds
		}
		schema, successor := kinds[kind], successors[rest]
		switch {
		case out.lacks[kind] != "":
		case schema == nil:
			out.lacks[kind] = fmt.Sprintf("%s (%s)", kind, version)
		case path != "" && !has(schema, path) && (successor == "" || !has(schema, successor)):
			out.lacks[kind] = fmt.Sprintf("%s.%s (%s)", kind, path, version)
		}
	}
	for path, group := range paths {
		version, isAPI := strings.CutPrefix(path, "apis/")
		if !isAPI || !strings.Contains(version, ".liqo.io/") {
			continue
		}
		kinds, known := byVersion[version]
		if !known {
			if kinds, err = kubeobject.ReadSchemas(group); err != nil {
				return out, fmt.Errorf("the schemas of %s cannot be read: %w", version, err)
			}
		}
		for kind := range kinds {
			if liqoprotocol.Exchanges(kind) {
				out.Protocol = append(out.Protocol, kind+" "+version)
			}
		}
	}
	slices.Sort(out.Protocol)
	return out, nil
}

// has reports whether a value may have a field, such as "spec.csr".
func has(s *kubeobject.Schema, path string) bool { return hasParts(s, strings.Split(path, ".")) }

// hasParts reports whether a value may have a field. A list and a map have the fields of what they hold.
func hasParts(s *kubeobject.Schema, path []string) bool {
	switch {
	case s == nil:
		return false
	case len(path) == 0 || s.Open:
		return true
	case s.Items != nil:
		return hasParts(s.Items, path)
	case s.Values != nil:
		return hasParts(&s.Values.Schema, path)
	}
	return hasParts(s.Properties[path[0]], path[1:])
}
