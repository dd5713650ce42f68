package cli

import (
	"regexp"
	"strconv"
	"time"

	"github.com/spf13/pflag"
)

// durationVar adds a flag for a duration. Unlike that of pflag it takes days: 1d, 1d12h.
func durationVar(f *pflag.FlagSet, p *time.Duration, name string, value time.Duration, usage string) {
	*p = value
	f.Var((*durationValue)(p), name, usage)
}

type durationValue time.Duration

func (d *durationValue) Set(text string) (err error) {
	*(*time.Duration)(d), err = parseTime(text)
	return err
}

func (d *durationValue) Type() string { return "duration" }

func (d *durationValue) String() string {
	if *d == 0 {
		return "" // pflag prints no default
	}
	return time.Duration(*d).String()
}

var days = regexp.MustCompile(`^(-?\d{1,5})d`)

// parseTime reads a duration such as 1h30m, 7d or 1d12h.
func parseTime(text string) (time.Duration, error) {
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
