package memorytest_test

import (
	"testing"

	"github.com/bourse-dev/bourse/internal/journal"
	"github.com/bourse-dev/bourse/internal/journal/journaltest"
	"github.com/bourse-dev/bourse/internal/journal/memorytest"
)

func TestConformance(t *testing.T) {
	journaltest.Run(t, func(testing.TB) func() journal.Journal {
		j := memorytest.New()
		return func() journal.Journal { return j }
	})
}
