package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/bourse-dev/bourse/internal/identity/atomicfile"
)

// fileName holds everything: one rename replaces key and certificate together.
const fileName = "identity.json"

type inDir struct{ path string }

// InDir stores the identity in dir as identity.json (0600): an object with the keys tls.key, tls.crt, ca.crt,
// cluster.key, cluster.rotations and broker-url, as the Secret has them. It makes dir if needed (0700).
func InDir(dir string) Store { return inDir{filepath.Join(dir, fileName)} }

func (d inDir) Load(context.Context) (Identity, error) {
	text, err := os.ReadFile(d.path)
	if errors.Is(err, fs.ErrNotExist) {
		return Identity{}, fmt.Errorf("%w: %s", ErrNotFound, d.path)
	}
	if err != nil {
		return Identity{}, err
	}
	var readable map[string]string
	if err := json.Unmarshal(text, &readable); err != nil {
		return Identity{}, fmt.Errorf("%s: %w: restore it, or move it away and join again", d.path, err)
	}
	parts := make(map[string][]byte, len(readable))
	for name, value := range readable {
		parts[name] = []byte(value)
	}
	return fromParts(parts), nil
}

func (d inDir) Save(_ context.Context, identity *Identity) error {
	readable := make(map[string]string)
	for name, value := range identity.parts() {
		readable[name] = string(value)
	}
	text, err := json.MarshalIndent(readable, "", "  ")
	if err != nil {
		return err
	}
	return atomicfile.Write(d.path, append(text, '\n'))
}
