package broker

import (
	"os"
	"path/filepath"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/identity/tlsid"
	"github.com/bourse-dev/bourse/internal/server"
	"github.com/bourse-dev/bourse/internal/server/compat"
)

// Prototypes are the prototypes' interfaces, each off by default. See package compat.
type Prototypes struct {
	// Agents serves their resource agents, which their certificates name by the common name.
	Agents bool
	// LegacyCA is a file with further CAs (PEM) whose certificates may name such agents. Empty: none.
	LegacyCA string
	// Catalog and Orchestrator are those of liqo-broker.
	Catalog, Orchestrator bool
}

// legacyFile, beside the CA, is what the keys of members are derived from that have none.
const legacyFile = "legacy.key"

// serve adds them to a server that does not serve yet.
func (p Prototypes) serve(o Options, s *server.Server, authority *tlsid.Authority) error {
	if !p.Agents && !p.Catalog && !p.Orchestrator {
		return nil
	}
	options := compat.Options{Server: s, Agents: p.Agents, Catalog: p.Catalog, Orchestrator: p.Orchestrator, Log: o.Log}
	if p.Agents {
		var err error
		if options.Secret, err = compat.OpenSecret(filepath.Join(o.Dir, "ca", legacyFile)); err != nil {
			return err
		}
		var further []byte
		if p.LegacyCA != "" {
			if further, err = os.ReadFile(p.LegacyCA); err != nil {
				return api.Invalid("--legacy-ca", "%s", err).Fix("name a PEM file with the CA of the agents' certificates")
			}
		}
		if err := authority.AdmitCommonNames(further); err != nil {
			return api.Invalid("--legacy-ca", "%s: %s", p.LegacyCA, err).Fix("name a PEM file with the CA of the agents' certificates")
		}
	}
	compat.Serve(options)
	return nil
}
