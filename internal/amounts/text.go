package amounts

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
)

// Text returns an amount for messages: CPUs in cores with at most one decimal, bytes in the largest unit that leaves a
// readable number, both rounded down, and 1000 instead of 1k.
func (x Amount) Text() string {
	q := x.Quantity()
	milli := q.MilliValue()
	switch whole := milli%1000 == 0; {
	case x.bytes():
		return bytesText(x.Value)
	case x.Resource == "cpu" && !whole && max(milli, -milli) >= 100:
		tenths, sign := milli/100, ""
		if milli < 0 {
			tenths, sign = (milli-99)/100, "-"
		}
		tenths = max(tenths, -tenths)
		return strings.TrimSuffix(fmt.Sprintf("%s%d.%d", sign, tenths/10, tenths%10), ".0")
	case whole && q.Format == resource.DecimalSI:
		return strconv.FormatInt(q.Value(), 10)
	}
	return q.String()
}

// bytesText returns bytes in the largest unit that divides them, or of which they have ten.
func bytesText(v int64) string {
	sign := ""
	if v < 0 {
		v, sign = -max(v, -math.MaxInt64), "-"
	}
	for i, unit := range []string{"Ti", "Gi", "Mi", "Ki"} {
		size := int64(1) << (40 - 10*i)
		if v >= 10*size || v >= size && v%size == 0 {
			return sign + strconv.FormatInt(v/size, 10) + unit
		}
	}
	return sign + strconv.FormatInt(v, 10)
}
