package memory_test

import (
	"testing"

	"github.com/bourse-dev/bourse/internal/journal"
	"github.com/bourse-dev/bourse/internal/journal/journaltest"
	"github.com/bourse-dev/bourse/internal/journal/memory"
)

func TestConformance(t *testing.T) {
	journaltest.Run(t, func(testing.TB) func() journal.Journal {
		j := memory.New()
		return func() journal.Journal { return j }
	})
}
