package market

import (
	"github.com/bourse-dev/bourse/api"
)

// Bounds of a card.
const (
	maxCardEntries = 64
	maxCardText    = 256
	maxRotation    = 1024 // bytes of a signed document
)

// validCard checks the bounds of a card. Errors: Invalid at the property.
func validCard(c api.Card) error {
	if len(c.Rotations) > api.MaxRotations {
		return api.Invalid("rotations", "%d of them", len(c.Rotations)).Fix("show the newest %d", api.MaxRotations)
	}
	for _, rotation := range c.Rotations {
		if len(rotation) > maxRotation {
			return api.Invalid("rotations", "one has %d characters", len(rotation)).Fix("use at most %d", maxRotation)
		}
	}
	if err := checkApproval("approveWithin", c.ApproveWithin); err != nil {
		return err
	}
	if c.MaxNamespaces < 0 || c.MaxNamespaces > api.MaxNamespaces {
		return api.Invalid("maxNamespaces", "%d namespaces", c.MaxNamespaces).Fix("show 1 to %d", api.MaxNamespaces)
	}
	p := c.Properties
	for name, list := range map[string][]string{
		"zones": p.Zones, "architectures": p.Architectures, "gpus": p.GPUs, "storageClasses": p.StorageClasses,
		"region": {p.Region}, "kubernetes": {p.Kubernetes}, "liqo": {p.Liqo}, "network": {string(p.Network)},
		"connector": {p.Connector},
	} {
		if err := bounded(name, len(list), list...); err != nil {
			return err
		}
	}
	for label, value := range p.Labels {
		if err := bounded("labels", len(p.Labels), label, value); err != nil {
			return err
		}
	}
	return nil
}

func bounded(property string, entries int, texts ...string) error {
	if entries > maxCardEntries {
		return api.Invalid("properties."+property, "%d entries", entries).Fix("show at most %d", maxCardEntries)
	}
	for _, text := range texts {
		if len(text) > maxCardText {
			return api.Invalid("properties."+property, "%.40q... has %d characters", text, len(text)).
				Fix("use at most %d", maxCardText)
		}
	}
	return nil
}
