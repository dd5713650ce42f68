package client

import (
	"bufio"
	"context"
	"errors"
	"net/http"
	"net/url"
	"time"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/decoded"
	"github.com/bourse-dev/bourse/internal/payload"
)

// silence is how long a watch may say nothing before its connection is taken for dead;
// the server says something every 20 s.
const silence = 60 * time.Second

// eventBound is for one event of a watch: one payload, or offers of a seller in 256 KiB, unless one
// is larger.
var eventBound = bound{2 << 20, 8 << 20}

// Watch calls handle with each event of one watch, resumed from token (empty: from a whole
// snapshot), until ctx ends, the connection does or handle returns an error, which it
// returns. The caller watches again, with the token of the last bookmark that it has dealt with.
func (c *Client) Watch(ctx context.Context, token string, handle func(api.WatchEvent) error) error {
	return c.WatchCatalog(ctx, token, "", handle)
}

// WatchCatalog is Watch, with the catalog: what changed since the bookmark with the token catalog,
// or all of it ("all").
func (c *Client) WatchCatalog(ctx context.Context, token, catalog string, handle func(api.WatchEvent) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	path, query := "/watch", url.Values{}
	for name, value := range map[string]string{"token": token, "catalog": catalog} {
		if value != "" {
			query.Set(name, value)
		}
	}
	if len(query) > 0 {
		path += "?" + query.Encode()
	}
	alive := time.AfterFunc(silence, cancel)
	defer alive.Stop()
	response, err := c.request(ctx, http.MethodGet, path, nil, nil)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	lines := bufio.NewScanner(response.Body)
	lines.Buffer(nil, int(eventBound.bytes))
	for lines.Scan() {
		alive.Stop()
		cost := decoded.Cost(lines.Bytes())
		if cost > eventBound.memory {
			return api.Errorf(api.CodeTooLarge, "the watch broke: an event of %d bytes would take more than %d bytes of memory",
				len(lines.Bytes()), eventBound.memory).
				Fix("ask the operator of %s", c.name)
		}
		if err := c.keepPace(ctx, cost); err != nil {
			return err
		}
		alive.Reset(silence)
		var e api.WatchEvent
		if err := payload.Unmarshal(lines.Bytes(), &e); err != nil {
			return api.Errorf(api.CodeUnavailable, "the watch broke: %s", err)
		}
		switch {
		case e.Type == api.WatchEnd && e.Error != nil:
			return understood(e.Error)
		case e.Type == api.WatchReservation && e.Object == nil, e.Type == api.WatchStanding &&
			e.Standing == nil, e.Type == api.WatchSeller && e.Seller == nil:
			return api.Errorf(api.CodeUnavailable, "the watch broke: an event is empty")
		}
		if err := handle(e); err != nil {
			return err
		}
	}
	if err := lines.Err(); errors.Is(err, bufio.ErrTooLong) {
		return api.Errorf(api.CodeTooLarge, "the watch broke: an event has more than %d bytes", eventBound.bytes).
			Fix("ask the operator of %s", c.name)
	} else if err != nil {
		return api.Errorf(api.CodeUnavailable, "the watch broke: %s", err)
	}
	return api.Errorf(api.CodeUnavailable, "the server ended the watch")
}
