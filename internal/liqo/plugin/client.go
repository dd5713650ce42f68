package plugin

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptrace"
	"strconv"
	"strings"
	"time"

	"github.com/bourse-dev/bourse/api"
)

const (
	// patience is how long a plugin may take to answer, as it was Liqo's.
	patience = 5 * time.Second
	// dialTime is how long a connection may take to be made.
	dialTime = 3 * time.Second
	// pulse is how often a connection on which nothing is said is tried: rarely, because servers end that of whoever asks often.
	pulse = 10 * time.Minute
)

// Check says what is wrong with an address at which a plugin is to be asked. Errors: Invalid at field.
func Check(field, address string) error {
	host, port, err := net.SplitHostPort(address)
	number, notANumber := strconv.ParseUint(port, 10, 16)
	if err != nil || notANumber != nil || number == 0 || host == "" || len(address) > 259 || strings.ContainsAny(host, "/@?#% \t\r\n") {
		return api.Invalid(field, "%.80q is not an address", address).Fix("say HOST:PORT, such as 127.0.0.1:6001 or liqo-fixed-resources-plugin.liqo:6001")
	}
	return nil
}

var (
	// ErrNoNews says that a plugin tells nobody of changes. Wrapped with the detail.
	ErrNoNews = errors.New("it tells nobody of changes")
	// ErrRefused says that a plugin answered with an error of its own, such as that it does not know the consumer. Wrapped with the detail.
	ErrRefused = errors.New("it refuses")
)

// Client asks one plugin. Safe for concurrent use.
type Client struct {
	// Address is where the plugin is.
	Address   string
	transport *http.Transport
}

// New makes a client. It connects when it is first asked, and again whenever it has to. Close it.
func New(address string) (*Client, error) {
	if err := Check("address", address); err != nil {
		return nil, err
	}
	var plain http.Protocols
	plain.SetUnencryptedHTTP2(true)
	return &Client{address, &http.Transport{ // no proxy: it is just there
		Protocols: &plain, DialContext: (&net.Dialer{Timeout: dialTime}).DialContext, DisableCompression: true,
		MaxResponseHeaderBytes: 16 << 10, IdleConnTimeout: time.Minute, HTTP2: &http.HTTP2Config{SendPingTimeout: pulse, PingTimeout: patience},
	}}, nil
}

// Close lets go of the connection, when nothing is asked any more.
func (c *Client) Close() { c.transport.CloseIdleConnections() }

// ReadResources asks how much a consumer may have: what is not named it may not have at all. Errors: ErrRefused; others are that there is
// no usable answer. They are for the provider's own people: they say where the plugin is.
func (c *Client) ReadResources(ctx context.Context, consumer string) (api.Resources, error) {
	answer, err := c.ask(ctx, "ReadResources", consumer)
	if err != nil {
		return nil, err
	}
	r, err := resourcesIn(answer)
	if err != nil {
		return nil, fmt.Errorf("resource plugin %s: its answer about %s makes no sense: %w", c.Address, consumer, err)
	}
	return r, nil
}

// RemoveCluster says that a consumer has nothing here any more. The error is that the plugin was not reached: what it answers does not matter.
func (c *Client) RemoveCluster(ctx context.Context, consumer string) error {
	_, err := c.ask(ctx, "RemoveCluster", consumer)
	if errors.Is(err, ErrRefused) {
		return nil
	}
	return err
}

// ask calls a method that has one answer.
func (c *Client) ask(ctx context.Context, method, consumer string) (answer message, err error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	answered := false
	err = c.call(ctx, method, named(consumer), func(m message) error {
		if answered {
			return errors.New("more than one answer")
		}
		answer, answered = m, true
		return nil
	})
	if err == nil && !answered {
		err = fmt.Errorf("resource plugin %s: %s: no answer", c.Address, method)
	}
	return answer, err
}

// Subscribe tells of what changes, until ctx or the connection ends: of one consumer or, where it is empty, of all. begun is called when the
// plugin has been asked. The error is never nil: ErrNoNews, or why it has ended.
func (c *Client) Subscribe(ctx context.Context, begun func(), changed func(consumer string)) error {
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{WroteRequest: func(w httptrace.WroteRequestInfo) {
		if w.Err == nil {
			begun()
		}
	}})
	err := c.call(ctx, "Subscribe", nil, func(m message) error {
		consumer, err := clusterIn(m)
		if err == nil {
			changed(consumer)
		}
		return err
	})
	if err == nil {
		err = fmt.Errorf("resource plugin %s: it has ended the subscription", c.Address)
	}
	return err
}
