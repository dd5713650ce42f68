package quantities

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"regexp"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/bourse-dev/bourse/api"
)

var pattern = regexp.MustCompile(api.QuantityPattern)

// transport looks at answers about Liqo's kinds.
func (c *Checked) transport(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(request *http.Request) (*http.Response, error) {
		answer, err := next.RoundTrip(request)
		if err != nil || answer.StatusCode >= http.StatusMultipleChoices ||
			!strings.HasPrefix(answer.Header.Get("Content-Type"), "application/json") {
			return answer, err
		}
		resource := resourceIn(request.URL.Path)
		if k, ok := kinds()[resource]; ok {
			answer.Body = &checkedBody{Closer: answer.Body, values: json.NewDecoder(answer.Body),
				check: func(value []byte) ([]byte, error) { return c.check(k, resource.Resource, value) }}
			answer.ContentLength = -1
			answer.Header.Del("Content-Length")
		}
		return answer, nil
	})
}

type roundTripper func(*http.Request) (*http.Response, error)

func (r roundTripper) RoundTrip(request *http.Request) (*http.Response, error) { return r(request) }

// resourceIn returns the group and resource of a path such as /apis/GROUP/VERSION/namespaces/NAMESPACE/RESOURCE/NAME.
func resourceIn(path string) schema.GroupResource {
	_, path, _ = strings.Cut(path, "/apis/")
	parts := strings.Split(path, "/")
	switch {
	case len(parts) >= 5 && parts[2] == "namespaces":
		return schema.GroupResource{Group: parts[0], Resource: parts[4]}
	case len(parts) >= 3:
		return schema.GroupResource{Group: parts[0], Resource: parts[2]}
	}
	return schema.GroupResource{}
}

// checkedBody is the body of an answer: one value of JSON, or the values of a watch one after the other.
type checkedBody struct {
	io.Closer
	values *json.Decoder
	check  func([]byte) ([]byte, error)
	rest   []byte // of the value that is being read
}

func (b *checkedBody) Read(into []byte) (int, error) {
	if len(b.rest) == 0 {
		var value json.RawMessage
		if err := b.values.Decode(&value); err != nil {
			return 0, err
		}
		checked, err := b.check(value)
		if err != nil {
			return 0, err
		}
		b.rest = append(checked, '\n')
	}
	n := copy(into, b.rest)
	b.rest = b.rest[n:]
	return n, nil
}

// bad is an amount that nobody may read.
type bad struct {
	item       int // the object's index in a list; -1: there is no list
	field      string
	start, end int // of its JSON
}

// check returns an answer with 0 for each amount that nobody may read, and notes the objects.
func (c *Checked) check(k kind, resource string, answer []byte) ([]byte, error) {
	s := search{in: jsontext.NewDecoder(bytes.NewReader(answer), jsontext.AllowDuplicateNames(true),
		jsontext.AllowInvalidUTF8(true)), item: -1}
	if err := s.value(k.amounts, nil); err != nil || len(s.found) == 0 {
		return answer, err
	}
	if err := c.noteAll(k, resource, answer, s.found); err != nil {
		return nil, err
	}
	var out []byte
	last := 0
	for _, b := range s.found {
		out = append(append(out, answer[last:b.start]...), `"0"`...)
		last = b.end
	}
	return append(out, answer[last:]...), nil
}

// search finds bad amounts, and passes over all else.
type search struct {
	in    *jsontext.Decoder
	item  int
	found []bad
}

// value reads the next value, whose amounts are at p. path leads to it.
func (s *search) value(p place, path []string) error {
	switch kind := s.in.PeekKind(); {
	case kind == '{' && len(p) > 0:
		return s.object(p, path)
	case kind == '[' && p[items] != nil:
		return s.list(p[items], path)
	case len(p) == 0 && (kind == '"' || kind == '0'):
		return s.amount(path)
	}
	return s.in.SkipValue()
}

func (s *search) object(p place, path []string) error {
	if _, err := s.in.ReadToken(); err != nil {
		return err
	}
	for s.in.PeekKind() != '}' {
		name, err := s.in.ReadToken()
		if err != nil {
			return err
		}
		key := name.String()
		below, ok := p[key]
		if !ok {
			below, ok = p[values]
		}
		if ok {
			err = s.value(below, append(path, key))
		} else {
			err = s.in.SkipValue()
		}
		if err != nil {
			return err
		}
	}
	_, err := s.in.ReadToken()
	return err
}

func (s *search) list(p place, path []string) error {
	if _, err := s.in.ReadToken(); err != nil {
		return err
	}
	objects := len(path) == 1 && path[0] == "items"
	for i := 0; s.in.PeekKind() != ']'; i++ {
		item := append(path, strconv.Itoa(i))
		if objects {
			s.item, item = i, nil
		}
		if err := s.value(p, item); err != nil {
			return err
		}
	}
	if objects {
		s.item = -1
	}
	_, err := s.in.ReadToken()
	return err
}

func (s *search) amount(path []string) error {
	text, err := s.in.ReadValue()
	if err != nil {
		return err
	}
	end := int(s.in.InputOffset())
	start := end - len(text)
	if text[0] == '"' {
		if text, err = jsontext.AppendUnquote(nil, text); err != nil {
			return err
		}
	}
	if len(text) > api.QuantityLength || !pattern.Match(text) {
		if len(path) > 0 && path[0] == "object" {
			path = path[1:]
		}
		s.found = append(s.found, bad{s.item, strings.Join(path, "."), start, end})
	}
	return nil
}
