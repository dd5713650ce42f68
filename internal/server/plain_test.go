package server

import (
	"testing"

	"github.com/bourse-dev/bourse/api"
)

// A number that takes for ever to read is refused before anyone reads it.
func TestAnAdvertisementWithAnAbsurdExponentIsRefusedAtOnce(t *testing.T) {
	for amount, fine := range map[string]bool{
		"1e-99999999": false, "1.5E+999": false, "9e999": false, ".1e100": false,
		"12e2": true, "1e-9": true, "8Gi": true, "1E": true,
	} {
		err := jsonFormat().Unmarshal([]byte(`{"pools":{"general":{"allocated":{"cpu":"`+amount+`"}}}}`), new(api.MeasurementDelta))
		if (err == nil) != fine {
			t.Errorf("%s: %v", amount, err)
		}
	}
}
