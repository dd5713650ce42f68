// Package client is the Go client of Bourse's REST API, at a broker or at an agent's
// own listener.
//
//	c := client.New("https://broker.example:7443", httpClientWithCertificate)
//	r, err := c.Reserve(ctx, "my-key-1", api.Request{Resources: ...})
//
// Every method returns the payloads of package api, and for an answer that is not a success the
// [*api.Error] in it. Nothing is retried but what [Client.Watch] says.
package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"github.com/bourse-dev/bourse/api"
)

// Client calls one server.
type Client struct {
	base  string
	name  string // of the server, for people
	http  *http.Client
	token string
	skew  *atomic.Int64 // see Skew
}

// New makes a client of the server at base, "https://HOST:PORT" or "unix:///path/of/socket".
// hc carries the certificate; nil is http.DefaultClient.
func New(base string, hc *http.Client) *Client {
	if path, ok := strings.CutPrefix(base, "unix://"); ok {
		return &Client{base: "http://socket", name: base, skew: new(atomic.Int64), http: &http.Client{Transport: &http.Transport{
			DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
				return (&net.Dialer{}).DialContext(ctx, "unix", path)
			},
		}}}
	}
	if hc == nil {
		hc = http.DefaultClient
	}
	base = strings.TrimSuffix(base, "/")
	return &Client{base: base, name: base, http: hc, skew: new(atomic.Int64)}
}

// WithToken returns a client that sends a bearer token, as an agent's listener on loopback wants.
func (c *Client) WithToken(token string) *Client {
	with := *c
	with.token = token
	return &with
}

const (
	// maxAnswer bounds what is read of an answer.
	maxAnswer = 64 << 20
	// maxItems bounds what is read of a list.
	maxItems = 1_000_000
	// timeout is how long a call may take; a watch has no end.
	timeout = 30 * time.Second
)

func (c *Client) request(ctx context.Context, method, path string, header http.Header, in any) (*http.Response, error) {
	var body io.Reader
	if in != nil {
		data, err := json.Marshal(in)
		if err != nil {
			return nil, err
		}
		body = bytes.NewReader(data)
	}
	r, err := http.NewRequestWithContext(ctx, method, c.base+api.Prefix+path, body)
	if err != nil {
		return nil, err
	}
	for name, values := range header {
		r.Header[name] = values
	}
	if in != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	if c.token != "" {
		r.Header.Set("Authorization", "Bearer "+c.token)
	}
	response, err := c.http.Do(r)
	if wrapped, ok := errors.AsType[*url.Error](err); ok {
		err = wrapped.Err // the rest names a URL that nobody typed
	}
	if ours, ok := errors.AsType[*api.Error](err); ok { // of what carries the call, which knows better what to do
		return nil, ours
	}
	if err != nil {
		return nil, api.Errorf(api.CodeUnavailable, "%s", err).Fix("check that the server at %s runs and can be reached", c.name)
	}
	c.noteDate(response.Header)
	if response.StatusCode >= 300 {
		defer response.Body.Close()
		return nil, c.problem(response)
	}
	return response, nil
}

// problem reads the error in an answer.
func (c *Client) problem(response *http.Response) error {
	data, _ := io.ReadAll(io.LimitReader(response.Body, 1<<20))
	var e api.Error
	if json.Unmarshal(data, &e) == nil && e.Code != "" {
		return understood(&e)
	}
	switch response.StatusCode {
	case http.StatusServiceUnavailable, http.StatusBadGateway, http.StatusGatewayTimeout:
		return api.Errorf(api.CodeUnavailable, "%s answered %s", c.name, response.Status)
	case http.StatusNotFound, http.StatusMethodNotAllowed:
		return api.Errorf(api.CodeNotFound, "%s has no %s", c.name, response.Request.URL.Path).
			Fix("see whether it is the server that you mean: a broker, or the agent of a cluster")
	}
	return api.Errorf(api.CodeInternal, "%s answered %s", c.name, response.Status)
}

// understood makes an error of a code that we do not know, of a later version or of nonsense, an Internal one:
// codes become reasons of conditions, and exit codes.
func understood(e *api.Error) *api.Error {
	if _, known := api.Codes[e.Code]; !known {
		e.Detail, e.Code = fmt.Sprintf("%.40q: %s", e.Code, e.Detail), api.CodeInternal
	}
	e.Title, e.Status = api.Codes[e.Code].Title, api.Codes[e.Code].Status
	return e
}

// call makes one call and decodes its answer into out, unless that is nil.
func (c *Client) call(ctx context.Context, method, path string, header http.Header, in, out any) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	response, err := c.request(ctx, method, path, header, in)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	body := io.LimitReader(response.Body, maxAnswer)
	if out != nil {
		if err := json.NewDecoder(body).Decode(out); err != nil {
			return api.Errorf(api.CodeUnavailable, "the answer of %s %s is broken: %s", method, path, err).Fix("repeat the call")
		}
	}
	_, _ = io.Copy(io.Discard, body) // so that the connection is used again
	return nil
}

// list reads all pages of a list.
func list[T any](ctx context.Context, c *Client, path string, query url.Values) ([]api.Envelope[T], error) {
	if query == nil {
		query = url.Values{}
	}
	all := []api.Envelope[T]{}
	for {
		var page api.List[T]
		if err := c.call(ctx, http.MethodGet, path+"?"+query.Encode(), nil, nil, &page); err != nil {
			return nil, err
		}
		all = append(all, page.Items...)
		if page.Continue == "" {
			return all, nil
		}
		if page.Continue <= query.Get("continue") || len(all) > maxItems {
			return nil, api.Errorf(api.CodeInternal, "the pages of %s do not come to an end", path)
		}
		query.Set("continue", page.Continue)
	}
}

func one[T any](ctx context.Context, c *Client, method, path string, header http.Header, in any) (api.Envelope[T], error) {
	var out api.Envelope[T]
	err := c.call(ctx, method, path, header, in, &out)
	return out, err
}
