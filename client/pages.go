package client

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"unsafe"

	"github.com/bourse-dev/bourse/api"
)

// list reads all pages of a list.
func list[T any](ctx context.Context, c *Client, path string, query url.Values) ([]api.Envelope[T], error) {
	if query == nil {
		query = url.Values{}
	}
	all, rest := []api.Envelope[T]{}, bound{c.lists, 2 * c.lists}
	for {
		more, next, left, err := nextPage(ctx, c, path, query, rest, all)
		if err != nil {
			return nil, err
		}
		if all, rest = more, left; next == "" {
			return all, nil
		}
		query.Set("continue", next)
	}
}

// nextPage adds the page of a list that a query continues at. It returns where the next page begins, empty at the end,
// and what is left of the bound.
func nextPage[T any](ctx context.Context, c *Client, path string, query url.Values, within bound,
	all []api.Envelope[T]) (more []api.Envelope[T], next string, left bound, err error) {
	left, err = c.callWithin(ctx, within, http.MethodGet, path+"?"+query.Encode(), nil, nil, func(a *answer) (err error) {
		more, next, err = readPage(a, all)
		return err
	})
	if err == nil && next != "" && next <= query.Get("continue") {
		err = api.Errorf(api.CodeInternal, "the pages of %s do not come to an end", path)
	}
	return more, next, left, err
}

// readPage adds the items of a page, one at a time. It returns where the next page begins.
func readPage[T any](a *answer, all []api.Envelope[T]) (_ []api.Envelope[T], next string, err error) {
	if err := expect(a.Decoder, '{'); err != nil {
		return nil, "", err
	}
	for a.begin(); a.More(); a.begin() {
		name, err := a.Token()
		if err != nil {
			return nil, "", err
		}
		switch name {
		case "items":
			begin, err := a.Token()
			if err != nil {
				return nil, "", err
			}
			if begin == nil { // null
				continue
			}
			if begin != json.Delim('[') {
				return nil, "", fmt.Errorf("%v is no list", begin)
			}
			for a.begin(); a.More(); a.begin() {
				if err := a.take(2 * int64(unsafe.Sizeof(api.Envelope[T]{}))); err != nil { // twice, as slices grow so
					return nil, "", err
				}
				var item api.Envelope[T]
				if err := a.Decode(&item); err != nil {
					return nil, "", err
				}
				all = append(all, item)
			}
			if _, err := a.Token(); err != nil {
				return nil, "", err
			}
		case "continue":
			err = a.Decode(&next)
		default:
			err = a.Decode(new(json.RawMessage))
		}
		if err != nil {
			return nil, "", err
		}
	}
	return all, next, expect(a.Decoder, '}')
}

func expect(d *json.Decoder, delimiter json.Delim) error {
	token, err := d.Token()
	if err == nil && token != delimiter {
		err = fmt.Errorf("%v stands where %v belongs", token, delimiter)
	}
	return err
}
