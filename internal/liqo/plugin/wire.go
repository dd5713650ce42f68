package plugin

import (
	"fmt"
	"strconv"

	"google.golang.org/protobuf/encoding/protowire"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/market"
)

const (
	// maxAnswer bounds a message of a plugin, in bytes.
	maxAnswer = 64 << 10
	// maxNames bounds how many resources an answer names.
	maxNames = 64
	// maxAmount is what more of a resource comes to: more than any cluster has, and little enough to be added up.
	maxAmount = 1 << 50
)

// message is one of protobuf, encoded.
type message []byte

// named is the message that names a cluster.
func named(cluster string) message {
	return protowire.AppendString(protowire.AppendTag(nil, 1, protowire.BytesType), cluster)
}

// clusterIn is the cluster that a message names; empty: every one.
func clusterIn(m message) (cluster string, err error) {
	err = m.each(1, func(v message) error { cluster = string(v); return nil })
	return cluster, err
}

// each calls do for each value of a field that has a length. Other fields are left alone, as protobuf has it.
func (m message) each(field protowire.Number, do func(message) error) error {
	for len(m) > 0 {
		number, kind, n := protowire.ConsumeTag(m)
		if n < 0 {
			return protowire.ParseError(n)
		}
		m = m[n:]
		if number != field || kind != protowire.BytesType {
			if n = protowire.ConsumeFieldValue(number, kind, m); n < 0 {
				return protowire.ParseError(n)
			}
			m = m[n:]
			continue
		}
		value, n := protowire.ConsumeBytes(m)
		if n < 0 {
			return protowire.ParseError(n)
		}
		m = m[n:]
		if err := do(value); err != nil {
			return err
		}
	}
	return nil
}

// last is the last value of a field, as protobuf has it, and whether there is one.
func (m message) last(field protowire.Number) (value message, there bool, err error) {
	err = m.each(field, func(v message) error { value, there = v, true; return nil })
	return value, there, err
}

// nested says whether bytes are a message rather than a text: they begin with the tag of a field, and no name and no quantity begins
// with a control character.
func (m message) nested() bool { return len(m) > 0 && m[0] < ' ' }

// resourcesIn reads the answer to ReadResources, of whichever dialect. Pools are added up, and what is below 0 is 0. An answer of which
// some part makes no sense is none at all.
func resourcesIn(answer message) (api.Resources, error) {
	sum, flat := api.Resources{}, api.Resources{}
	err := answer.each(1, func(item message) error {
		first, there, err := item.last(1)
		switch {
		case err != nil || !there: // a pool of nothing
			return err
		case !first.nested():
			return enter(flat, item)
		}
		pool := api.Resources{}
		if err := item.each(1, func(e message) error { return enter(pool, e) }); err != nil {
			return err
		}
		return add(sum, pool)
	})
	if err != nil {
		return nil, err
	}
	return sum, add(sum, flat)
}

// enter reads an entry of a map, of which the last of one name counts.
func enter(into api.Resources, entry message) error {
	name, _, err := entry.last(1)
	if err != nil {
		return err
	}
	value, _, err := entry.last(2)
	if err != nil {
		return err
	}
	if value.nested() {
		if value, _, err = value.last(1); err != nil {
			return err
		}
	}
	amount, err := quantity(string(value))
	if err != nil {
		return fmt.Errorf("%.80q: %w", string(name), err)
	}
	if errs := validation.IsQualifiedName(string(name)); len(errs) > 0 {
		return fmt.Errorf("%.80q is not the name of a resource: %s", string(name), errs[0])
	}
	into[corev1.ResourceName(name)] = amount
	return bounded(into)
}

func bounded(r api.Resources) error {
	if len(r) > maxNames {
		return fmt.Errorf("more than %d resources", maxNames)
	}
	return nil
}

// quantity reads one as Kubernetes writes it, also in the quotes that some plugins put around it. None is 0, as it was to Liqo.
func quantity(text string) (q resource.Quantity, err error) {
	if unquoted, err := strconv.Unquote(text); err == nil && text[0] == '"' {
		text = unquoted
	}
	if text == "" {
		return q, nil
	}
	if q, err = market.ReadQuantity(text); err != nil {
		return q, fmt.Errorf("%.40q is not a quantity: %w", text, err)
	}
	switch {
	case q.Sign() < 0:
		return resource.Quantity{}, nil
	case q.CmpInt64(maxAmount) > 0:
		return *resource.NewQuantity(maxAmount, q.Format), nil
	}
	return q, nil
}

// add adds up, as far as amounts go.
func add(sum, more api.Resources) error {
	for name, amount := range more {
		total := sum[name]
		if total.Add(amount); total.CmpInt64(maxAmount) > 0 {
			total = *resource.NewQuantity(maxAmount, total.Format)
		}
		sum[name] = total
	}
	return bounded(sum)
}
