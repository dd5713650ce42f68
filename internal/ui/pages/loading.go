package pages

import (
	"bytes"
	"context"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/a-h/templ"

	"github.com/bourse-dev/bourse/api"
)

// Loading is the code of what a page waits for: it was asked for, and the answer is on its way. Nothing failed.
const Loading api.Code = "Loading"

// Loads says that a page waits for something: how it is called in a sentence, such as "the catalog", what happens to get
// it, such as "the broker is asked", and since when. Pages show it where they show an error.
func Loads(what, stage string, since time.Time) *api.Error {
	return api.Errorf(Loading, "%s since %s UTC", stage, since.UTC().Format("15:04:05")).At(what)
}

// IsLoading reports whether something is on its way.
func IsLoading(e *api.Error) bool { return e != nil && e.Code == Loading }

// OnlyLoading returns why something is missing if it is on its way, and nil for all other reasons.
func OnlyLoading(e *api.Error) *api.Error {
	if IsLoading(e) {
		return e
	}
	return nil
}

// loadingText is the sentence about some things that are on their way in the same stage.
func loadingText(stage string, what ...string) string {
	return "Loading " + strings.Join(what, ", ") + ": " + stage + "."
}

// sentenceOf is the sentence about one thing that is on its way.
func sentenceOf(e *api.Error) string { return loadingText(e.Detail, e.Field) }

// loads returns what of a page is on its way, by its stage, in order. Empty: nothing is.
func loads(failed map[string]*api.Error) (stages []string, what map[string][]string) {
	what = map[string][]string{}
	for _, kind := range slices.Sorted(maps.Keys(failed)) {
		if e := failed[kind]; IsLoading(e) && !slices.Contains(what[e.Detail], e.Field) {
			what[e.Detail] = append(what[e.Detail], e.Field)
		}
	}
	return slices.Sorted(maps.Keys(what)), what
}

// anyLoads reports whether something of a page is on its way.
func anyLoads(failed map[string]*api.Error) bool {
	stages, _ := loads(failed)
	return len(stages) > 0
}

type loadingKey struct{}

// note notes that a page shows that it waits for something.
func note(ctx context.Context) {
	if loading, is := ctx.Value(loadingKey{}).(*bool); is {
		*loading = true
	}
}

// Layout is a whole page. Its content is made first: the head of the page says whether something loads.
func Layout(v View, content templ.Component) templ.Component {
	return templ.ComponentFunc(func(ctx context.Context, w io.Writer) error {
		var body bytes.Buffer
		if err := content.Render(context.WithValue(ctx, loadingKey{}, &v.loading), &body); err != nil {
			return err
		}
		v.loading = v.loading || IsLoading(v.NoCluster) || IsLoading(v.NoProblems) || IsLoading(v.NoRights)
		return allVisible(layout(v, templ.Raw(body.String()))).Render(ctx, w)
	})
}

// reloads reports whether a page without script reads itself again, because something loads. One with a form that the
// user may fill in does not: the text would be lost.
func (v View) reloads() bool { return v.loading && !v.Typing && !v.still() && v.Panel() == "" }
