package amounts

import (
	"math"
	"testing"
)

// Messages name CPUs in cores, as the commands do, and whole numbers without a suffix.
func TestTextOfAmounts(t *testing.T) {
	for want, a := range map[string]Amount{
		"16.8": {"cpu", 16800}, "36": {"cpu", 36000}, "0.1": {"cpu", 199}, "20m": {"cpu", 20}, "-0.2": {"cpu", -150},
		"1000": {"pods", 1000}, "8Gi": {"memory", 8 << 30}, "3": {"example.com/npu", 3},
		"204Mi": {"memory", 214748365}, "199Gi": {"memory", 214533616435}, "10Mi": {"memory", 10<<20 + 1}, "-1Ti": {"storage", -(1 << 40)},
		"9217": {"memory", 9217}, "-8388607Ti": {"memory", math.MinInt64},
	} {
		if got := a.Text(); got != want {
			t.Errorf("%v is %s, want %s", a, got, want)
		}
	}
}
