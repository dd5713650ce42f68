package market_test

import (
	"bytes"
	"encoding/json"
	"regexp"
	"testing"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/market"
)

// farExponent is a quantity like 1e999999999, on which the library that parses quantities works for ever.
// What comes from outside is searched for it before it is decoded; these decoders come after.
var farExponent = regexp.MustCompile(`[eE][+-]?[0-9]{4,}`)

// Reading any journal ends with an error, or with an event that can be applied and written again.
func FuzzDecodeEvent(f *testing.F) {
	for _, data := range story(f) {
		f.Add(data)
	}
	for _, bad := range []string{``, `null`, `{}`, `{"time":1}`,
		`{"time":1,"reservation":{}}`, `{"member":{},"token":{}}`, `{"forget":{}} x`, `{"novelty":{}}`} {
		f.Add([]byte(bad))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if farExponent.Match(data) {
			return
		}
		e, err := market.NewEventReader().Read(data)
		if err != nil {
			return
		}
		s := market.New("")
		s.Apply(e)
		s.Publish(nil)
		if wrong := s.Imbalance(); wrong != 0 {
			t.Errorf("imbalance %d", wrong)
		}
		once := encode(t, e)
		if twice := encode(t, decode(t, once)); !bytes.Equal(once, twice) {
			t.Errorf("written again as\n%s\nthen as\n%s", once, twice)
		}
	})
}

func FuzzRestore(f *testing.F) {
	s := market.New("")
	for _, data := range story(f) {
		s.Apply(decode(f, data))
		snapshot, err := market.Encoded(s)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(snapshot)
	}
	for _, bad := range []string{``, `null`, `{"members":[null]}`,
		`{"tokens":[null]}`, `{"reservations":[null]}`, `{"reservations":[{}]}`, `{"novelties":[]}`} {
		f.Add([]byte(bad))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if farExponent.Match(data) {
			return
		}
		s := market.New("")
		if s.Restore(data) != nil {
			return
		}
		s.Publish(nil)
		once, err := market.Encoded(s)
		if err != nil {
			t.Fatal(err)
		}
		again := market.New("")
		if err := again.Restore(once); err != nil {
			t.Fatal(err)
		}
		if twice, _ := market.Encoded(again); !bytes.Equal(once, twice) {
			t.Errorf("restored\n%s\nthen\n%s", once, twice)
		}
		if _, err := market.Decide(s, market.Tick{}, 1<<60); err != nil {
			t.Error(err)
		}
	})
}

// No advertisement makes a sum overflow.
func FuzzMeasure(f *testing.F) {
	all := resources("cpu", "8", "nvidia.com/gpu", "2")
	seed, err := json.Marshal(measurement(map[string]api.Pool{"general": {Capacity: all,
		Allocatable: all, Allocated: resources("cpu", "1500u"), Shared: all,
		Accounts: map[string]api.AccountUse{"paris": {Commitments: map[string]api.Resources{"r": resources("cpu", "1")},
			Used: resources("pods", "3")}}}}))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(seed)
	f.Add(bytes.ReplaceAll(seed, []byte(`"8"`), []byte(`"1152921504606846"`)))
	f.Fuzz(func(t *testing.T, data []byte) {
		var given api.Measurement
		if farExponent.Match(data) || json.Unmarshal(data, &given) != nil {
			return
		}
		m, err := market.Measure(given)
		if err != nil {
			if api.CodeOf(err) != api.CodeInvalid {
				t.Errorf("not Invalid: %v", err)
			}
			return
		}
		s := market.New("")
		if err := s.Observe("rome", m, noon, true); err != nil {
			t.Fatal(err)
		}
		if wrong := s.Imbalance(); wrong != 0 {
			t.Errorf("imbalance %d", wrong)
		}
		for _, pool := range s.Publish(nil).Listing("rome").Pools {
			for _, a := range append(pool.Reserved.Plus(nil), pool.Available...) {
				if a.Value > 1<<61 || a.Value < -1<<62 {
					t.Errorf("%s: %d", a.Resource, a.Value)
				}
			}
			if pool.Reserved.Negative() {
				t.Errorf("reserved %v", pool.Reserved)
			}
		}
	})
}
