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

	"golang.org/x/time/rate"

	"github.com/bourse-dev/bourse/api"
)

// Client calls one server.
type Client struct {
	base  string
	name  string // of the server, for people
	http  *http.Client
	token string
	skew  *atomic.Int64 // see Skew
	lists int64         // the most bytes that all pages of a list may have
	pace  *rate.Limiter // of watches, in bytes of memory; nil: without a bound
}

// New makes a client of the server at base, "https://HOST:PORT" or "unix:///path/of/socket". hc
// carries the certificate; nil is http.DefaultClient. No redirect is followed: a call, with its
// body, goes to that server and to no other. An answer that redirects is Unavailable.
func New(base string, hc *http.Client) *Client {
	if path, ok := strings.CutPrefix(base, "unix://"); ok {
		return &Client{base: "http://socket", name: base, skew: new(atomic.Int64),
			lists: maxList, http: &http.Client{Transport: &http.Transport{
				DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
					return (&net.Dialer{}).DialContext(ctx, "unix", path)
				},
			}, CheckRedirect: stay}}
	}
	if hc == nil {
		hc = http.DefaultClient
	}
	base = strings.TrimSuffix(base, "/")
	straight := *hc
	straight.CheckRedirect = stay
	return &Client{base: base, name: base, http: &straight, skew: new(atomic.Int64), lists: maxList}
}

// stay follows no redirect.
func stay(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

// WithToken returns a client that sends a bearer token, as an agent's listener on loopback wants.
func (c *Client) WithToken(token string) *Client {
	with := *c
	with.token = token
	return &with
}

// WithLists returns a client that reads at most so many bytes of all pages of a list together,
// instead of 1 GiB, and at most what is estimated to take twice as much memory. It is for a process
// that has little memory, and does not trust the server with all of it.
func (c *Client) WithLists(most int64) *Client {
	with := *c
	with.lists = most
	return &with
}

// bound is what an answer, or a part of one, may have: bytes of JSON, and bytes of memory that they
// are estimated to take once they are decoded.
type bound struct{ bytes, memory int64 }

var (
	// onePayload is for an answer, or an item of a list, with one payload. A reservation is the
	// largest: it has up to six signed documents of 96 KiB, two cards and a request.
	onePayload = bound{2 << 20, 4 << 20}
	// manyParts is for the answers that have a part for each cluster, namespace or problem.
	manyParts = bound{16 << 20, 32 << 20}
)

const (
	// maxList bounds what is read of all pages of a list together, in bytes, unless WithLists says less.
	maxList = 1 << 30
	// maxErrorText bounds each text of an error that a server answers with, in bytes. Such texts reach logs,
	// conditions and Events.
	maxErrorText = 4 << 10
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
	r.Header.Set("User-Agent", userAgent())
	response, err := c.http.Do(r)
	if wrapped, ok := errors.AsType[*url.Error](err); ok {
		err = wrapped.Err // the rest names a URL that nobody typed
	}
	if known, ok := errors.AsType[*api.Error](err); ok { // of what carries the call, which knows better what to do
		return nil, known
	}
	if err != nil {
		return nil, api.Errorf(api.CodeUnavailable, "%s", err).
			Fix("check that the server at %s runs and can be reached", c.name)
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
	if to := response.Header.Get("Location"); response.StatusCode < 400 {
		return api.Errorf(api.CodeUnavailable, "%s answered %s, to %.200q: redirects are not followed",
			c.name, response.Status, to).
			Fix("give the address at which the server itself answers")
	}
	switch response.StatusCode {
	case http.StatusTooManyRequests: // of a proxy on the way
		return api.Errorf(api.CodeTooManyRequests, "%s answered %s", c.name, response.Status).Fix("call less often")
	case http.StatusServiceUnavailable, http.StatusBadGateway, http.StatusGatewayTimeout:
		return api.Errorf(api.CodeUnavailable, "%s answered %s", c.name, response.Status)
	case http.StatusNotFound, http.StatusMethodNotAllowed:
		return api.Errorf(api.CodeNotFound, "%s has no %s", c.name, response.Request.URL.Path).
			Fix("see whether it is the server that you mean: a broker, or the agent of a cluster")
	}
	return api.Errorf(api.CodeInternal, "%s answered %s", c.name, response.Status)
}

// understood makes an error of a code that we do not know, of a later version or of nonsense, an
// Internal one: codes become reasons of conditions, and exit codes. It cuts long texts. It drops the command: a broker
// would choose what runs here.
func understood(e *api.Error) *api.Error {
	if _, known := api.Codes[e.Code]; !known {
		e.Detail, e.Code = fmt.Sprintf("%.40q: %s", e.Code, e.Detail), api.CodeInternal
	}
	e.Title, e.Status = api.Codes[e.Code].Title, api.Codes[e.Code].Status
	e.Argv = nil
	for _, text := range []*string{&e.Detail, &e.Field, &e.Remedy} {
		*text = api.CutText(*text, maxErrorText)
	}
	return e
}

// call makes one call and decodes its answer into out, unless that is nil.
func (c *Client) call(ctx context.Context, method, path string, header http.Header, in, out any) error {
	return c.callFor(ctx, onePayload, method, path, header, in, out)
}

// callFor is call for an answer within a bound.
func (c *Client) callFor(ctx context.Context, most bound, method, path string, header http.Header, in, out any) error {
	_, err := c.callWithin(ctx, most, method, path, header, in, func(a *answer) error {
		if out == nil {
			return nil
		}
		return a.Decode(out)
	})
	return err
}

// callWithin makes one call and has its answer read, within a bound. It returns what is left of the
// bound. Errors: also TooLarge.
func (c *Client) callWithin(ctx context.Context, most bound,
	method, path string, header http.Header, in any, read func(*answer) error) (left bound, err error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	response, err := c.request(ctx, method, path, header, in)
	if err != nil {
		return most, err
	}
	defer response.Body.Close()
	a := newAnswer(response.Body, most)
	err = read(a)
	if err == nil {
		_, _ = io.Copy(io.Discard, io.LimitReader(response.Body, most.bytes-a.read)) // so that the connection is used again
	}
	switch {
	case errors.Is(err, errTooLarge):
		return most, api.Errorf(api.CodeTooLarge,
			"the answer of %s %s has more than %d bytes, has an item of more than %d, or would take more "+
				"than %d bytes of memory",
			method, path, most.bytes, onePayload.bytes, most.memory).Fix("ask for less, or ask the operator of %s", c.name)
	case err != nil:
		return most, api.Errorf(api.CodeUnavailable, "the answer of %s %s is broken: %s", method, path, err).
			Fix("repeat the call")
	}
	return bound{most.bytes - a.read, most.memory - a.memory()}, nil
}

// fetch makes one call and returns its answer, within a bound.
func fetch[T any](ctx context.Context, c *Client, most bound, method, path string, in any) (T, error) {
	var out T
	err := c.callFor(ctx, most, method, path, nil, in, &out)
	return out, err
}

// fetchEnvelope makes one call and returns the item in its answer.
func fetchEnvelope[T any](ctx context.Context, c *Client, method, path string,
	header http.Header, in any) (api.Envelope[T], error) {
	var out api.Envelope[T]
	err := c.call(ctx, method, path, header, in, &out)
	return out, err
}
