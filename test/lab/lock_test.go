package lab

import (
	"context"
	"errors"
	"testing"
)

func TestLockFolderExcludesAnother(t *testing.T) {
	dir := t.TempDir()
	unlock, err := lockFolder(t.Context(), dir, func() { t.Error("waits for a folder that is free") })
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	if _, err := lockFolder(ctx, dir, cancel); !errors.Is(err, context.Canceled) {
		t.Fatalf("lock of a folder that is held: %v, want to wait until canceled", err)
	}
	again, err := lockFolder(t.Context(), dir, unlock)
	if err != nil {
		t.Fatal(err)
	}
	again()
}
