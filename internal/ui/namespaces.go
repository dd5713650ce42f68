package ui

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/bourse-dev/bourse/internal/identity/atomicfile"
)

// mostRemembered is how many contexts are remembered, mostNamed how many namespaces of each, and mostMemory the size of
// their file in bytes. The context that was not chosen for the longest time is forgotten first.
const mostRemembered, mostNamed, mostMemory = 100, 200, 64 << 10

// remembered are the namespaces that a user chose for a context. The server tells contexts of the same name apart.
type remembered struct {
	Context    string   `json:"context"`
	Server     string   `json:"server"`
	Namespaces []string `json:"namespaces"`
}

// namespacesFile returns where the choices of this user are kept, beside the theme. Empty: they are not kept.
func namespacesFile() string {
	theme := themeFile()
	if theme == "" {
		return ""
	}
	return filepath.Join(filepath.Dir(theme), "namespaces")
}

// RememberedNamespaces returns the namespaces that the user chose last for a context of a kubeconfig. Empty: none.
func RememberedNamespaces(context, server string) []string {
	for _, r := range readRemembered(namespacesFile()) {
		if r.Context == context && r.Server == server {
			return r.Namespaces
		}
	}
	return nil
}

// RememberNamespaces keeps the namespaces that the user chose for a context, or forgets those of before if there are none.
// Names that no namespace can have change nothing. Errors: those of the file, and too many namespaces.
func RememberNamespaces(context, server string, namespaces []string) error {
	file := namespacesFile()
	if file == "" || slices.Equal(namespaces, RememberedNamespaces(context, server)) || !areNamespaces(namespaces) {
		return nil
	}
	if len(namespaces) > mostNamed {
		return fmt.Errorf("more than %d are not kept", mostNamed)
	}
	all := slices.DeleteFunc(readRemembered(file), func(r remembered) bool { return r.Context == context && r.Server == server })
	if len(namespaces) > 0 {
		all = slices.Insert(all, 0, remembered{context, server, namespaces})
	}
	all = all[:min(len(all), mostRemembered)]
	for {
		text, err := json.MarshalIndent(all, "", " ")
		if err != nil {
			return err
		}
		if len(text) < mostMemory || len(all) == 0 {
			return atomicfile.Write(file, append(text, '\n'))
		}
		all = all[:len(all)-1]
	}
}

// readRemembered reads what was remembered, the last choice first. What is damaged or cannot be read is nothing.
func readRemembered(file string) (out []remembered) {
	text, err := readFile(file, mostMemory)
	if err != nil || json.Unmarshal(text, &out) != nil {
		return nil
	}
	return slices.DeleteFunc(out, func(r remembered) bool {
		return len(r.Namespaces) == 0 || !areNamespaces(r.Namespaces)
	})
}

// areNamespaces reports whether namespaces can have these names: they are printed and shown.
func areNamespaces(names []string) bool {
	return !slices.ContainsFunc(names, func(name string) bool { return len(validation.IsDNS1123Label(name)) > 0 })
}
