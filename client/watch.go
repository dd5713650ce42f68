package client

import (
	"bufio"
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"time"

	"github.com/bourse-dev/bourse/api"
)

// silence is how long a watch may say nothing before its connection is taken for dead;
// the server says something every 20 s.
const silence = 60 * time.Second

// maxLine bounds one event of a watch.
const maxLine = 4 << 20

// Watch calls handle with each event of one watch, resumed from token (empty: from a whole
// snapshot), until ctx ends, the connection does or handle returns an error, which it
// returns. The caller watches again, with the token of the last bookmark that it has dealt with.
func (c *Client) Watch(ctx context.Context, token string, handle func(api.WatchEvent) error) error {
	return c.WatchCatalog(ctx, token, "", handle)
}

// WatchCatalog is Watch, with the catalog: what changed since the bookmark with the token catalog, or all of it ("all").
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
	lines.Buffer(nil, maxLine)
	for lines.Scan() {
		alive.Reset(silence)
		var e api.WatchEvent
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			return api.Errorf(api.CodeUnavailable, "the watch broke: %s", err)
		}
		switch {
		case e.Type == api.WatchEnd && e.Error != nil:
			return understood(e.Error)
		case e.Type == api.WatchReservation && e.Object == nil, e.Type == api.WatchStanding && e.Standing == nil, e.Type == api.WatchSeller && e.Seller == nil:
			return api.Errorf(api.CodeUnavailable, "the watch broke: an event is empty")
		}
		if err := handle(e); err != nil {
			return err
		}
	}
	if err := lines.Err(); err != nil {
		return api.Errorf(api.CodeUnavailable, "the watch broke: %s", err)
	}
	return api.Errorf(api.CodeUnavailable, "the server ended the watch")
}
