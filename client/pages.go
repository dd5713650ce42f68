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
		next := ""
		left, err := c.callWithin(ctx, rest, http.MethodGet, path+"?"+query.Encode(), nil, nil, func(a *answer) (err error) {
			all, next, err = readPage(a, all)
			return err
		})
		if err != nil {
			return nil, err
		}
		rest = left
		if next == "" {
			return all, nil
		}
		if next <= query.Get("continue") {
			return nil, api.Errorf(api.CodeInternal, "the pages of %s do not come to an end", path)
		}
		query.Set("continue", next)
	}
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
