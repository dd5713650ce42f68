package market

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/bourse-dev/bourse/api"
)

// Bounds of a card.
const (
	maxCardEntries = 64
	maxCardText    = 256  // characters
	maxRotation    = 1024 // bytes of a signed document
)

// validCard checks a card that a cluster shows. Errors: Invalid at the property.
func validCard(c *api.Card) error {
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
	return CheckShown(c)
}

// CheckShown checks the cluster and the properties of a card, which others select on and show. Errors: Invalid at the
// property.
func CheckShown(c *api.Card) error {
	if err := ValidCluster("cluster", c.Cluster); err != nil {
		return err
	}
	p := &c.Properties
	for name, list := range map[string][]string{
		"zones": p.Zones, "architectures": p.Architectures, "gpus": p.GPUs, "storageClasses": p.StorageClasses,
		"region": {p.Region}, "kubernetes": {p.Kubernetes}, "liqo": {p.Liqo}, "network": {string(p.Network)},
		"connector": {p.Connector}, "liqoProtocol": p.LiqoProtocol,
	} {
		if err := bounded("properties."+name, len(list), list...); err != nil {
			return err
		}
	}
	return CheckLabels("properties.labels", p.Labels)
}

// CheckLabels checks the labels of a card. The agent of the cluster calls it before it puts them there, and all who
// read the card call it, so that nobody takes what another refuses. Errors: Invalid at field.
func CheckLabels(field string, labels map[string]string) error {
	for label, value := range labels {
		if err := bounded(field, len(labels), label, value); err != nil {
			return err
		}
	}
	return nil
}

// bounded checks texts of a card. Errors: Invalid at field.
func bounded(field string, entries int, texts ...string) error {
	if entries > maxCardEntries {
		return api.Invalid(field, "%d entries", entries).Fix("show at most %d", maxCardEntries)
	}
	for _, text := range texts {
		if n := utf8.RuneCountInString(text); n > maxCardText {
			return api.Invalid(field, "%.40q... has %d characters", text, n).Fix("use at most %d", maxCardText)
		}
		if !Printable(text) {
			return api.Invalid(field, "%.80q cannot be shown", text).Fix("use printable characters, and no line breaks")
		}
	}
	return nil
}

// Printable reports whether a text can be stored, and shown on one line of a terminal.
func Printable(text string) bool {
	return !strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) || r == utf8.RuneError })
}
