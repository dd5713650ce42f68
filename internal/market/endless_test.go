package market_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/bourse-dev/bourse/internal/market"
)

// A journal with an amount that no number can be made of is refused at once, and the error names it.
func TestEndlessAmountsOfAJournal(t *testing.T) {
	for _, amount := range []string{`"1e-999999999"`, `1e-999999999`, `2E6000000000`, `"` + strings.Repeat("9", 1000) + `"`} {
		record := fmt.Sprintf(`{"id":"r-1","request":{"resources":{"memory":%s}}}`, amount)
		for name, load := range map[string]func() error{
			"event": func() error {
				_, err := market.NewEventReader().Read([]byte(`{"time":1,"reservation":` + record + `}`))
				return err
			},
			"snapshot": func() error { return market.New("").Restore([]byte(`{"reservations":[` + record + `]}`)) },
		} {
			slow := time.AfterFunc(time.Minute, func() { panic("a " + name + " takes more than a minute to read: " + record) })
			err := load()
			slow.Stop()
			if text := fmt.Sprint(err); !strings.HasPrefix(text, name+": ") || !strings.Contains(text, "memory") {
				t.Errorf("%s with %.40s: %v", name, amount, err)
			}
		}
	}
}
