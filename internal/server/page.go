package server

import (
	"encoding/json"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/payload"
)

// Page selects a part of a list: at most limit items after the ID in continue.
type Page struct {
	Limit    int    `query:"limit" minimum:"1" maximum:"1000" default:"500" doc:"largest number of items; the answer has fewer if they are large"`
	Continue string `query:"continue" maxLength:"253" doc:"continue of the last answer"`
}

// maxPage is the approximate number of bytes of items in one page.
const maxPage = 4 << 20

// page is an api.List that is encoded item by item, so that memory never holds all of it. It ends at
// maxPage bytes.
type page[T any] struct {
	Items    []api.Envelope[T]
	Continue string
	after    func(sent int) string // the ID to continue after, for a number of sent items; nil: the ID of the last
	whole    bool                  // the caller cannot continue: send one page
}

// Schema implements huma.SchemaProvider.
func (page[T]) Schema(r huma.Registry) *huma.Schema {
	return r.Schema(reflect.TypeFor[api.List[T]](), true, "")
}

// send writes the list as JSON.
func (p page[T]) send(w io.Writer) error {
	if _, err := io.WriteString(w, `{"items":[`); err != nil {
		return err
	}
	next, size := p.Continue, 0
	for i := range p.Items {
		data, err := payload.MarshalAnswer(p.Items[i])
		if err != nil {
			return err
		}
		if size += len(data); i > 0 && size > maxPage && !p.whole {
			if next = p.Items[i-1].ID; p.after != nil {
				next = p.after(i)
			}
			break
		}
		if i > 0 {
			data = append([]byte{','}, data...)
		}
		if _, err := w.Write(data); err != nil {
			return err
		}
	}
	end := "]}\n"
	if next != "" {
		data, err := json.Marshal(next)
		if err != nil {
			return err
		}
		end = fmt.Sprintf(`],"continue":%s}`+"\n", data)
	}
	_, err := io.WriteString(w, end)
	return err
}

// cut sorts items by ID and returns the Page of them.
func cut[T any](items []api.Envelope[T], p Page) page[T] {
	slices.SortFunc(items, func(a, b api.Envelope[T]) int { return strings.Compare(a.ID, b.ID) })
	from, found := slices.BinarySearchFunc(items, p.Continue,
		func(e api.Envelope[T], id string) int { return strings.Compare(e.ID, id) })
	if found {
		from++
	}
	list := page[T]{Items: items[from:]}
	if len(list.Items) > p.Limit {
		list.Items = list.Items[:p.Limit]
		list.Continue = list.Items[p.Limit-1].ID
	}
	return list
}
