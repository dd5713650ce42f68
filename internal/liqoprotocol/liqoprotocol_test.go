package liqoprotocol_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/liqoprotocol"
)

// A provider must serve what the consumer's Liqo writes. It may serve more.
func TestCompare(t *testing.T) {
	today := liqoprotocol.Default
	with := func(lines ...string) liqoprotocol.Protocol { return append(slices.Clone(today), lines...) }
	without := func(kind string) liqoprotocol.Protocol {
		return slices.DeleteFunc(slices.Clone(today), func(l string) bool { return strings.HasPrefix(l, kind+" ") })
	}
	v1 := "ResourceSlice authentication.liqo.io/v1"
	for name, c := range map[string]struct {
		consumer, provider liqoprotocol.Protocol
		want               string
	}{
		"the same":                     {today, today, ""},
		"the provider serves more":     {today, with(v1), ""},
		"both serve more":              {with(v1), with(v1), ""},
		"a kind that is not exchanged": {with("Quota offloading.liqo.io/v1"), today, ""},
		"the consumer's is newer": {with(v1), today, `the capability "grants" differs: the consumer's Liqo writes ResourceSlice in ` +
			"authentication.liqo.io/v1, the provider serves authentication.liqo.io/v1beta1"},
		"a kind fewer": {today, without("ShadowPod"), `the capability "pods" differs: the consumer's Liqo writes ShadowPod in ` +
			"offloading.liqo.io/v1beta1, the provider serves none"},
		"a kind that the consumer lacks": {without("ShadowPod"), today, ""},
		"another group": {today, append(without("Tenant"), "Tenant auth.liqo.io/v1beta1"), `the capability "handshake" differs: the ` +
			"consumer's Liqo writes Tenant in authentication.liqo.io/v1beta1, the provider serves auth.liqo.io/v1beta1"},
	} {
		if got := liqoprotocol.Compare(c.consumer, c.provider); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// A card without a protocol is that of a former release, and counts as Liqo 1.2.
func TestOf(t *testing.T) {
	own := []string{"Tenant authentication.liqo.io/v1"}
	for name, c := range map[string]struct {
		card api.Properties
		want liqoprotocol.Protocol
	}{
		"a former release":          {api.Properties{Liqo: "v1.2.0"}, liqoprotocol.Default},
		"one that took another":     {api.Properties{Liqo: "v1.3.0-rc.1"}, liqoprotocol.Default},
		"a protocol":                {api.Properties{Liqo: "v1.3.0", LiqoProtocol: own}, own},
		"one of an unknown version": {api.Properties{LiqoProtocol: own}, own},
		"no Liqo":                   {api.Properties{}, nil},
		"no version":                {api.Properties{Liqo: "garbage"}, nil},
	} {
		if got := liqoprotocol.Of(&c.card); !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}
