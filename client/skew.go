package client

import (
	"net/http"
	"time"
)

// Skew is by how much the server's clock was ahead of this one at the last answer; 0 if it did not
// say. The Date of an answer has whole seconds, so less than two mean nothing.
func (c *Client) Skew() time.Duration { return time.Duration(c.skew.Load()) }

func (c *Client) noteDate(h http.Header) {
	if date, err := http.ParseTime(h.Get("Date")); err == nil {
		c.skew.Store(int64(time.Until(date)))
	}
}
