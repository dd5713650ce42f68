package payload

import (
	"regexp"
	"strconv"
	"time"
)

var days = regexp.MustCompile(`^(-?\d{1,5})d`)

// ParseDuration reads a duration as users write it: 1h30m, 7d or 1d12h. Errors: those of time.ParseDuration.
func ParseDuration(text string) (time.Duration, error) {
	found := days.FindStringSubmatch(text)
	if found == nil {
		return time.ParseDuration(text)
	}
	n, err := strconv.ParseInt(found[1], 10, 64)
	whole := time.Duration(n) * 24 * time.Hour
	if rest := text[len(found[0]):]; err == nil && rest != "" {
		var more time.Duration
		more, err = time.ParseDuration(rest)
		whole += more
	}
	return whole, err
}
