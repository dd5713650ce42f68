package lab

import (
	"errors"
	"os"
	"testing"
)

// Test is a lab for one test, gone when the test ends. It skips the test under -short, and makes it
// fail when a daemon crashed. If the test fails, the lab's folder, with the daemons' logs, stays in
// os.TempDir.
func Test(t testing.TB) *Lab {
	t.Helper()
	if testing.Short() {
		t.Skip("starts a Kubernetes cluster")
	}
	l, err := Start(t.Context(), Options{Progress: os.Stderr})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Err(); err != nil {
			t.Error(err)
		}
		if t.Failed() {
			l.keep = true
			t.Logf("the lab's logs are kept in %s", l.Dir())
		}
		if err := l.Stop(); err != nil {
			t.Error(err)
		}
	})
	return l
}

// MachineFor boots the machine of a test's lab. Where its packages cannot be had it skips the test;
// with CI=true the test fails instead.
func MachineFor(t testing.TB, l *Lab) *Machine {
	t.Helper()
	m, err := l.Machine(t.Context())
	if errors.Is(err, ErrNoPackages) && os.Getenv("CI") != "true" {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	return m
}
