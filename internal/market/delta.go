package market

import (
	"bytes"
	"encoding/json"

	"github.com/bourse-dev/bourse/api"
)

// ReadDelta reads the JSON of a delta, of which a broker gets more than of anything else: as agents spell it without reflection, and in
// any other spelling as encoding/json does, whose errors are the errors.
func ReadDelta(data []byte, into *api.MeasurementDelta) error {
	if d := (&decoder{b: bytes.Trim(data, " \t\r\n")}); d.delta(into) {
		return nil
	}
	*into = api.MeasurementDelta{}
	return json.Unmarshal(data, into)
}

// delta says whether what it read was a delta, and all there was.
func (d *decoder) delta(into *api.MeasurementDelta) bool {
	d.take('{')
	d.sequence("base", &into.Base)
	d.sequence("sequence", &into.Sequence)
	if d.has("pools") {
		into.Pools = map[string]*api.PoolDelta{}
		d.entries(func(name string) {
			_, twice := into.Pools[name]
			d.odd = d.odd || twice
			into.Pools[name] = d.pool()
		})
	}
	d.take('}')
	return d.done()
}

func (d *decoder) sequence(field string, into *api.Sequence) {
	if d.has(field) {
		d.take('{')
		d.integer("incarnation", &into.Incarnation)
		d.integer("number", &into.Number)
		d.take('}')
	}
}

func (d *decoder) pool() *api.PoolDelta {
	p := &api.PoolDelta{}
	d.take('{') // that a pool is gone, null, is odd: it is rare
	d.resources("capacity", &p.Capacity)
	d.resources("allocatable", &p.Allocatable)
	d.resources("allocated", &p.Allocated)
	d.resources("shared", &p.Shared)
	d.value("accounts", &p.Accounts)
	d.value("shapes", &p.Shapes)
	d.take('}')
	return p
}
