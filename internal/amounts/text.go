package amounts

import (
	"fmt"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
)

// Text returns an amount for messages: CPUs in cores with at most one decimal, rounded down, and 1000 instead of 1k.
func (x Amount) Text() string {
	q := x.Quantity()
	milli := q.MilliValue()
	switch whole := milli%1000 == 0; {
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
