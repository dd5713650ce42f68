package kubeobject

import (
	"cmp"
	"context"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/watch"
)

// Follow watches objects until the watch or ctx ends. It calls look once after the watch began: a deletion before that is
// no event. It calls look, too, if it cannot watch. Then it calls changed with each event. A nil look is none. Errors:
// those of begin, look, changed and the watch.
func Follow(ctx context.Context, begin func() (watch.Interface, error), look func(context.Context) error,
	changed func(watch.Event) error) error {
	w, err := begin()
	if err == nil {
		defer w.Stop()
	}
	if look != nil {
		err = cmp.Or(look(ctx), err)
	}
	if err != nil {
		return err
	}
	for {
		select {
		case e, open := <-w.ResultChan():
			if !open {
				return nil
			}
			if e.Type == watch.Error {
				return apierrors.FromObject(e.Object)
			}
			if err := changed(e); err != nil {
				return err
			}
		case <-ctx.Done():
			return nil
		}
	}
}
