package servertest

import (
	"time"

	"github.com/bourse-dev/bourse/internal/market"
)

// Revision returns the revision of the market, once the broker has recorded which members advertise. It compares
// their leases each second. From then on, for minutes, only calls change the market.
func (f *Federation) Revision() uint64 {
	f.t.Helper()
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		recorded := false
		if err := f.Exchange.Read(f.t.Context(), func(s *market.State) {
			due, err := market.Decide(s, market.Notice{}, f.Exchange.Now())
			recorded = err == nil && len(due.Events) == 0
		}); err != nil {
			f.t.Fatal(err)
		}
		if recorded {
			return f.Exchange.View().Revision
		}
	}
	f.t.Fatal("the broker does not record which members advertise")
	return 0
}
