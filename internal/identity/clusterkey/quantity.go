package clusterkey

import (
	"errors"
	"fmt"
	"regexp"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	jsonv1 "github.com/go-json-experiment/json/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// quantityPattern matches every quantity that Kubernetes writes. Kubernetes also reads others: with any
// number of digits, and with exponents that take minutes to read.
var quantityPattern = regexp.MustCompile(`^[+-]?[0-9.]{1,24}([numkMGTPE]|[KMGTPE]i|[eE][+-]?[0-9]{1,2})?$`)

var (
	lenient = json.JoinOptions(jsonv1.DefaultOptionsV1(), json.WithUnmarshalers(json.UnmarshalFromFunc(readQuantity)))
	strict  = json.JoinOptions(lenient, json.RejectUnknownMembers(true), json.MatchCaseInsensitiveNames(false))
)

// Read decodes a payload as encoding/json does, but no quantity that Kubernetes would not write. Error:
// [ErrPayload].
func Read(payload []byte, into any) error { return read(payload, into, lenient) }

func read(payload []byte, into any, how json.Options) error {
	if err := json.Unmarshal(payload, into, how); err != nil {
		return fmt.Errorf("%w: %.200s", ErrPayload, err.Error()) // cut, because it quotes input
	}
	return nil
}

func readQuantity(in *jsontext.Decoder, into *resource.Quantity) error {
	token, err := in.ReadToken()
	if err != nil {
		return err
	}
	if token.Kind() != '"' || !quantityPattern.MatchString(token.String()) {
		return errors.New("a quantity is not spelled as Kubernetes writes it")
	}
	*into, err = resource.ParseQuantity(token.String())
	return err
}
