package payload

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/bourse-dev/bourse/api"
)

const (
	// maxDigits is how many digits and dots an amount in a signed document has at most.
	maxDigits = 24
	// shortAmount is so few characters that Kubernetes writes an amount without an exponent in at most
	// [api.QuantityLength].
	shortAmount = 20
)

// ParseQuantity parses an amount from outside. It refuses what does not match [api.QuantityPattern],
// and what has more than [api.QuantityLength] characters, before it makes a number: Kubernetes' parser
// spends hours on some of these. It also refuses the few amounts that Kubernetes writes with more
// characters or digits of an exponent than that: nobody could read them back. Its errors quote the text.
func ParseQuantity(text string) (resource.Quantity, error) {
	if !IsQuantity(text) {
		return resource.Quantity{}, fmt.Errorf("%.40q is not an amount", text)
	}
	q, err := resource.ParseQuantity(text)
	if err == nil && (len(text) > shortAmount || strings.ContainsAny(text, "eE")) && !IsQuantity(q.String()) {
		return resource.Quantity{}, fmt.Errorf("%q has more digits than an amount may have", text)
	}
	return q, err
}

// IsQuantity reports whether a text matches [api.QuantityPattern] and has at most
// [api.QuantityLength] characters. Nearly every payload has amounts, so it does not use the pattern.
func IsQuantity(text string) bool {
	if len(text) > api.QuantityLength {
		return false
	}
	if text != "" && (text[0] == '+' || text[0] == '-') {
		text = text[1:]
	}
	whole := digits(text)
	text = text[whole:]
	if text != "" && text[0] == '.' {
		part := digits(text[1:])
		whole += part
		text = text[1+part:]
	}
	return whole > 0 && isSuffix(text)
}

// isSuffix reports whether a text is what may follow the digits of an amount.
func isSuffix(text string) bool {
	switch len(text) {
	case 0:
		return true
	case 1:
		return strings.IndexByte("numkMGTPE", text[0]) >= 0
	case 2:
		if text[1] == 'i' {
			return strings.IndexByte("KMGTPE", text[0]) >= 0
		}
	}
	if text[0] != 'e' && text[0] != 'E' {
		return false
	}
	if text = text[1:]; text[0] == '+' || text[0] == '-' {
		text = text[1:]
	}
	return (len(text) == 1 || len(text) == 2) && digits(text) == len(text)
}

// digits returns how many digits a text begins with.
func digits(text string) (n int) {
	for n < len(text) && text[n] >= '0' && text[n] <= '9' {
		n++
	}
	return n
}

// quantities decodes amounts by [ParseQuantity]: texts and numbers. null is the zero amount.
func quantities(in *jsontext.Decoder, into *resource.Quantity) error {
	token, err := in.ReadToken()
	if err != nil {
		return err
	}
	switch token.Kind() {
	case '"', '0':
		return parseInto(into, token.String(), in)
	case 'n':
		*into = resource.Quantity{}
		return nil
	}
	return invalid(in, notAmount)
}

// notAmount is what is wrong with a value of another type.
const notAmount = "only text is an amount"

// signedQuantities decodes the amounts of a signed document: texts alone, with at most maxDigits.
func signedQuantities(in *jsontext.Decoder, into *resource.Quantity) error {
	token, err := in.ReadToken()
	if err != nil {
		return err
	}
	if token.Kind() != '"' {
		return invalid(in, notAmount)
	}
	text := token.String()
	if number := strings.TrimLeft(text, "+-"); len(number)-len(strings.TrimLeft(number, "0123456789.")) > maxDigits {
		return invalid(in, "an amount has more than "+strconv.Itoa(maxDigits)+" digits")
	}
	return parseInto(into, text, in)
}

func parseInto(into *resource.Quantity, text string, in *jsontext.Decoder) (err error) {
	if *into, err = ParseQuantity(text); err != nil {
		return invalid(in, err.Error())
	}
	return nil
}

// invalid says what is wrong with the amount that was read, and where it stands.
func invalid(in *jsontext.Decoder, wrong string) error {
	return api.Invalid(field(in.StackPointer()), "%s", wrong).
		Fix("write it as Kubernetes does, with at most %d characters: 500m, 2 or 8Gi", api.QuantityLength)
}

// field returns the path of a value as errors have it: plans[0].resources.cpu.
func field(pointer jsontext.Pointer) string {
	path := ""
	for name := range pointer.Tokens() {
		switch _, err := strconv.ParseUint(name, 10, 32); {
		case err == nil:
			path += "[" + name + "]"
		case path == "":
			path = name
		default:
			path += "." + name
		}
	}
	return path[:min(len(path), 200)]
}

// withQuantities returns options with which amounts are decoded by read, and other types by more.
func withQuantities(read func(*jsontext.Decoder, *resource.Quantity) error, more ...*json.Unmarshalers) Options {
	return json.WithUnmarshalers(json.JoinUnmarshalers(append(more, json.UnmarshalFromFunc(read))...))
}
