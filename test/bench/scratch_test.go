package main

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"
	"runtime/debug"

	"github.com/bourse-dev/bourse/internal/exchange"
	"github.com/bourse-dev/bourse/internal/journal/sqlite"
)

func TestScratchRestart(t *testing.T) {
	dir := "/tmp/books"
	if _, err := os.Stat(dir); err != nil {
		full := &books{clusters: many, reservations: live, after: live / 5}
		if err := full.write(t.Context(), dir); err != nil {
			t.Fatal(err)
		}
		full.advertise()
	}
	debug.SetGCPercent(300)
	for range 2 {
		begin, cpu := time.Now(), must(cpuTime())
		j := sqlite.New(filepath.Join(dir, "market.db"))
		x, err := exchange.Open(context.Background(), j, exchange.Options{Log: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		t.Log(x.View().Len(), time.Since(begin), must(cpuTime())-cpu)
		j.Close()
	}
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}
