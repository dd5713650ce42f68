// Package payload encodes and decodes JSON as encoding/json does, to the same bytes, but decodes in
// a third of the time, and checks each amount before it makes a number of it. Only answers differ: no
// array and no object in them is null. It is the only decoder
// of what has amounts and comes from outside: bodies, answers, documents, journals, files and flags.
// From Go 1.27 on, encoding/json/v2 can replace the module that it uses.
package payload

import (
	"bufio"
	"bytes"
	"cmp"
	stdjson "encoding/json"
	"errors"
	"io"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	jsonv1 "github.com/go-json-experiment/json/v1"
	"sigs.k8s.io/yaml"

	"github.com/bourse-dev/bourse/api"
)

// Options change how Unmarshal and Read decode.
type Options = json.Options

var (
	// answered escapes HTML, as json.Marshal does. A nil slice is [] and a nil map is {}, because clients
	// loop over them without a look.
	answered = json.JoinOptions(jsonv1.DefaultOptionsV1(), json.FormatNilSliceAsNull(false), json.FormatNilMapAsNull(false))
	// kept does not escape HTML: an escape makes six bytes of one that a member sends.
	kept     = json.JoinOptions(jsonv1.DefaultOptionsV1(), jsontext.EscapeForHTML(false))
	decoding = json.JoinOptions(jsonv1.DefaultOptionsV1(), withQuantities(quantities, json.UnmarshalFromFunc(number)))
	known    = json.RejectUnknownMembers(true)
)

var (
	// Signed is for signed documents: amounts are texts with at most 24 digits.
	Signed = withQuantities(signedQuantities)
	// Exact rejects fields that the value does not have, also those that differ in case only.
	Exact = json.JoinOptions(known, json.MatchCaseInsensitiveNames(false))
)

// Marshal returns v as a journal keeps it, in memory of its own without space for more.
func Marshal(v any) ([]byte, error) { return json.Marshal(v, kept) }

// Append appends v to b as a journal keeps it: without escapes of HTML.
func Append(b []byte, v any) ([]byte, error) {
	out := bytes.NewBuffer(b)
	err := json.MarshalWrite(out, v, kept)
	return out.Bytes(), err
}

// Write writes v as a journal keeps it. It writes piece by piece, so that the JSON is never in
// memory as a whole.
func Write(out io.Writer, v any) error {
	pieces := bufio.NewWriterSize(out, pieceSize)
	return cmp.Or(json.MarshalWrite(pieces, v, kept), pieces.Flush())
}

const pieceSize = 256 << 10

// MarshalAnswer returns v as a part of an answer: without null for an array or an object.
func MarshalAnswer(v any) ([]byte, error) { return json.Marshal(v, answered) }

// Answer writes an answer and a newline: as json.Encoder does, but without null for an array or an object.
func Answer(out io.Writer, v any) error {
	if err := json.MarshalWrite(out, v, answered); err != nil {
		return err
	}
	_, err := out.Write([]byte("\n"))
	return err
}

// Unmarshal decodes data into v. It ignores fields that v does not have. Errors: Invalid with the field
// for what is not an amount; for all else, those of encoding/json.
func Unmarshal(data []byte, v any, options ...Options) error {
	return explain(data, json.Unmarshal(data, v, decoding, json.JoinOptions(options...)))
}

// Read is Unmarshal that also rejects fields that v does not have.
func Read(data []byte, v any, options ...Options) error {
	return explain(data, json.Unmarshal(data, v, decoding, known, json.JoinOptions(options...)))
}

// ReadYAML decodes a file in YAML or JSON into v, as Read does. A key may stand once.
func ReadYAML(data []byte, v any) error {
	text, err := yaml.YAMLToJSONStrict(data)
	if err != nil {
		return err
	}
	return Read(text, v)
}

// number keeps a number as it is written. The module knows only a Number of its own.
func number(in *jsontext.Decoder, into *stdjson.Number) error {
	if in.PeekKind() == '"' {
		return errors.ErrUnsupported // it is decoded as text
	}
	value, err := in.ReadValue()
	if err == nil && value.Kind() != 'n' {
		err = stdjson.Unmarshal(value, into)
	}
	return err
}

// explain makes an error of the decoder that of encoding/json, which callers know.
func explain(data []byte, err error) error {
	if err == nil {
		return nil
	}
	if wrong, ok := errors.AsType[*jsonv1.UnmarshalTypeError](err); ok {
		return &stdjson.UnmarshalTypeError{Value: wrong.Value, Type: wrong.Type, Offset: wrong.Offset,
			Struct: wrong.Struct, Field: wrong.Field}
	}
	if _, ok := errors.AsType[*jsonv1.SyntaxError](err); ok {
		return cmp.Or(stdjson.Unmarshal(data, new(stdjson.RawMessage)), err)
	}
	return err
}

// Sharing makes resources with the same text one map, because many records have the same. The
// caller must not change these maps. It is for one goroutine.
func Sharing() Options {
	shared := map[string]api.Resources{}
	return withQuantities(quantities, json.UnmarshalFromFunc(func(in *jsontext.Decoder, into *api.Resources) error {
		text, err := in.ReadValue()
		if err != nil {
			return err
		}
		all, ok := shared[string(text)]
		if !ok {
			if err := Read(text, &all); err != nil {
				return err
			}
			shared[string(text)] = all
		}
		*into = all
		return nil
	}))
}
