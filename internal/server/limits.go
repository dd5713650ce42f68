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

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/market"
)

const (
	maxDepth   = 24
	maxCallers = 50_000
	strangers  = 0.01 // what an address without certificate may call, of what a member may
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
		key, per = "address "+host, l.rate*strangers
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	limiter := l.callers[key]
	if limiter == nil {
		if l.callers == nil || len(l.callers) >= maxCallers { // forgetting is cheaper than remembering whom to forget
			l.callers = map[string]*rate.Limiter{}
		}
		limiter = rate.NewLimiter(rate.Limit(per), max(1, int(2*per)))
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
		if delta, unvalidated := v.(*api.MeasurementDelta); unvalidated {
			if err := plain(data); err != nil {
				return err
			}
			return readable(market.ReadDelta(data, delta))
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

// plain refuses numbers with an exponent of more than two digits, such as 1e-99999999, which
// Kubernetes' reader of quantities would reckon with for hours. Other bodies are held to
// the schema of a quantity; those of hot paths, in which there is no free text, to this.
func plain(data []byte) error {
	for i := 1; i+3 < len(data); i++ {
		if (data[i] != 'e' && data[i] != 'E') || !numeral(data[i-1]) {
			continue
		}
		digits := data[i+1:]
		if digits[0] == '+' || digits[0] == '-' {
			digits = digits[1:]
		}
		if len(digits) >= 3 && digit(digits[0]) && digit(digits[1]) && digit(digits[2]) {
			return fmt.Errorf("a number has an exponent of more than two digits")
		}
	}
	return nil
}

func digit(c byte) bool   { return c >= '0' && c <= '9' }
func numeral(c byte) bool { return digit(c) || c == '.' }
