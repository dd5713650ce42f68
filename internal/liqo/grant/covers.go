package grant

import (
	"time"

	"github.com/bourse-dev/bourse/internal/market"
)

// Graces are how long pods may stay that a reservation no longer covers.
type Graces struct {
	// Shrink is how long the consumer has to move pods away before they overstay.
	Shrink time.Duration
	// Excess is how long pods may then exceed the grant until they are deleted.
	Excess time.Duration
}

// Covers returns what the pods of an account may use: what it is owed, and what ends within its
// graces. It adds the pods that are granted where no reservation names a number of pods. It is nil
// if there is neither.
func Covers(owed, ending market.Amounts) (market.Amounts, error) {
	both := owed.Plus(ending)
	if len(both) == 0 {
		return nil, nil
	}
	most, err := market.ParseCapacity("granted", Grant(both.Resources()))
	if err != nil || len(owed) == 0 || len(ending) == 0 {
		return most, err
	}
	// what ends may name fewer pods than are granted now
	granted, err := market.ParseCapacity("granted", Grant(owed.Resources()))
	return most.Max(granted), err
}
