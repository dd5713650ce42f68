package agent

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"

	ctrl "sigs.k8s.io/controller-runtime"
)

// part is a room and a controller that notes when it begins.
type part struct {
	name string
	note func(string)
	fail error
}

func (p part) Run(ctx context.Context) error {
	p.note(p.name)
	if p.fail != nil {
		return p.fail
	}
	<-ctx.Done()
	return nil
}

func (p part) Control(ctrl.Manager) error { p.note(p.name); return p.fail }

// The controllers begin before the cluster is measured, and what acts on what was loaded begins last.
func TestRun(t *testing.T) {
	broken, measured := errors.New("broken"), make(chan struct{})
	var mu sync.Mutex
	var begun []string
	note := func(name string) {
		mu.Lock()
		defer mu.Unlock()
		begun = append(begun, name)
		if name == "controller" {
			close(measured)
		}
	}
	s := stages{
		Controllers: []controller{part{name: "controller", note: note}}, Measured: measured,
		Load: []func(context.Context) error{func(context.Context) error { note("load"); return nil }},
		Then: []room{part{name: "then", note: note, fail: broken}},
	}
	if err := s.Run(t.Context(), nil); !errors.Is(err, broken) {
		t.Errorf("it ends with %v", err)
	}
	if want := []string{"controller", "load", "then"}; !slices.Equal(begun, want) {
		t.Errorf("the order is %v, want %v", begun, want)
	}
}

// An error of any stage ends all rooms, and the rest does not begin.
func TestRunFails(t *testing.T) {
	broken, measured := errors.New("broken"), make(chan struct{})
	close(measured)
	silent := func(string) {}
	never := part{note: func(string) { t.Error("the last stage begins") }}
	for name, s := range map[string]stages{
		"a room":       {First: []room{part{note: silent}, part{note: silent, fail: broken}}},
		"a controller": {First: []room{part{note: silent}}, Controllers: []controller{part{note: silent, fail: broken}}},
		"a load": {
			First: []room{part{note: silent}}, Measured: measured,
			Load: []func(context.Context) error{func(context.Context) error { return broken }},
		},
	} {
		s.Then = []room{never}
		if err := s.Run(t.Context(), nil); !errors.Is(err, broken) {
			t.Errorf("%s fails: %v", name, err)
		}
	}
}
