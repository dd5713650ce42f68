package plugin

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// The little of gRPC that a client of such plugins needs: a call is a POST of HTTP/2 whose body and answer are messages, each after a byte
// that says whether it is compressed and four with its length; how it went is in the trailer. Google's own client would make this
// program a third larger.

// unimplemented is the code of gRPC for a method that is not there.
const unimplemented = "12"

// refusals are the codes with which a plugin answers about a consumer: unknown, which is what an error is that a plugin gives no code, invalid argument,
// not found, permission denied and failed precondition.
var refusals = []string{"2", "3", "5", "7", "9"}

// call sends a message and hands on the answers, one after the other, until there are no more.
func (c *Client) call(ctx context.Context, method string, send message, answer func(message) error) error {
	ctx, cancel := context.WithCancel(ctx) // whoever leaves before the end ends it
	defer cancel()
	body := binary.BigEndian.AppendUint32([]byte{0}, uint32(len(send)))
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+c.Address+"/resource_reader/"+method, bytes.NewReader(append(body, send...)))
	if err != nil {
		return err
	}
	request.Header = http.Header{"Content-Type": {"application/grpc"}, "Te": {"trailers"}, "User-Agent": {"bourse"}}
	response, err := c.transport.RoundTrip(request) // a redirect is no answer
	if err != nil {
		return fmt.Errorf("resource plugin %s: %s: %w", c.Address, method, err)
	}
	defer response.Body.Close()
	if kind := response.Header.Get("Content-Type"); response.StatusCode != http.StatusOK || !strings.HasPrefix(kind, "application/grpc") {
		return fmt.Errorf("resource plugin %s: %s: it is no gRPC server: HTTP status %d, %.80q", c.Address, method, response.StatusCode, kind)
	}
	for {
		m, err := next(response.Body)
		if errors.Is(err, io.EOF) {
			return c.ended(method, response)
		}
		if err == nil {
			err = answer(m)
		}
		if err != nil {
			return fmt.Errorf("resource plugin %s: %s: %w", c.Address, method, err)
		}
	}
}

// next reads a message. The error is EOF where there is none.
func next(r io.Reader) (message, error) {
	var head [5]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return nil, err
	}
	size := binary.BigEndian.Uint32(head[1:])
	if head[0] != 0 {
		return nil, errors.New("a compressed message, which nobody asked for")
	}
	if size > maxAnswer {
		return nil, fmt.Errorf("a message of %d bytes, more than %d", size, maxAnswer)
	}
	m := make(message, size)
	if _, err := io.ReadFull(r, m); err != nil {
		return nil, fmt.Errorf("half a message: %w", noEnd(err))
	}
	return m, nil
}

// noEnd makes the end of an answer that comes too early another error.
func noEnd(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// ended says how a call went. What a plugin says of it may be anything, and long.
func (c *Client) ended(method string, response *http.Response) error {
	from := response.Trailer
	if response.Header.Get("Grpc-Status") != "" { // there was nothing else to say
		from = response.Header
	}
	code, text := from.Get("Grpc-Status"), from.Get("Grpc-Message")
	if readable, err := url.PathUnescape(text); err == nil {
		text = readable
	}
	switch {
	case code == "0":
		return nil
	case method == "Subscribe" && code == unimplemented:
		return fmt.Errorf("resource plugin %s: %w", c.Address, ErrNoNews)
	case slices.Contains(refusals, code):
		return fmt.Errorf("resource plugin %s: %s: %w: %.200q", c.Address, method, ErrRefused, text)
	}
	return fmt.Errorf("resource plugin %s: %s: gRPC status %.8q: %.200q", c.Address, method, code, text)
}
