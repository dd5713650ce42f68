package server

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"

	"github.com/danielgtaylor/huma/v2"
	"golang.org/x/time/rate"
)

const (
	maxDepth   = 24
	maxCallers = 50_000
)

// limits bounds the rate of each caller; who has no certificate is counted by address.
type limits struct {
	rate    float64
	mu      sync.Mutex
	callers map[string]*rate.Limiter
}

func (l *limits) allow(c Caller, r *http.Request) bool {
	key, per := c.String(), l.rate
	if c.Role == "" {
		host, _, _ := net.SplitHostPort(r.RemoteAddr)
		key, per = "address "+host, 5
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	limiter := l.callers[key]
	if limiter == nil {
		if l.callers == nil || len(l.callers) >= maxCallers { // forgetting is cheaper than remembering whom to forget
			l.callers = map[string]*rate.Limiter{}
		}
		limiter = rate.NewLimiter(rate.Limit(per), int(2*per))
		l.callers[key] = limiter
	}
	return limiter.Allow()
}

// jsonFormat reads JSON that is not deeper than any of our payloads, and writes it.
var jsonFormat = huma.Format{
	Marshal: func(w io.Writer, v any) error { return json.NewEncoder(w).Encode(v) },
	Unmarshal: func(data []byte, v any) error {
		if err := shallow(data); err != nil {
			return err
		}
		return readable(json.Unmarshal(data, v))
	},
}

// shallow refuses JSON that nests deeper than maxDepth, before anything is built from it.
func shallow(data []byte) error {
	depth, inString := 0, false
	for i := 0; i < len(data); i++ {
		switch c := data[i]; {
		case inString && c == '\\':
			i++
		case c == '"':
			inString = !inString
		case inString:
		case c == '{' || c == '[':
			if depth++; depth > maxDepth {
				return fmt.Errorf("nested deeper than %d", maxDepth)
			}
		case c == '}' || c == ']':
			depth--
		}
	}
	if bytes.IndexByte(data, 0) >= 0 {
		return fmt.Errorf("contains a NUL byte")
	}
	return nil
}
