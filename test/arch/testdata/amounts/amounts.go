// Package amounts reads amounts in each way that TestAmountsAreDecodedByPayload refuses.
package amounts

import (
	"encoding/json"
	"io"

	experimental "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	jsonv1 "github.com/go-json-experiment/json/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	"github.com/bourse-dev/bourse/api"
)

type plain struct {
	Name  string
	Parts []map[string]*plain
}

func read(in io.Reader, data []byte, text string, codec runtime.Decoder, content map[string]any, into any) {
	var request api.Request
	var nested struct {
		Of map[string][]*api.ResourceRequest
	}
	_ = json.Unmarshal(data, &request)                                          // refused
	_ = json.NewDecoder(in).Decode(&nested)                                     // refused
	_ = experimental.Unmarshal(data, &request)                                  // refused
	_ = experimental.UnmarshalRead(in, &nested)                                 // refused
	_ = experimental.UnmarshalDecode(jsontext.NewDecoder(in), &request)         // refused
	_ = jsonv1.Unmarshal(data, &request)                                        // refused
	_ = yaml.UnmarshalStrict(data, &request)                                    // refused
	_ = json.Unmarshal(data, into)                                              // refused
	_, _, _ = codec.Decode(data, nil, nil)                                      // refused
	_ = runtime.DefaultUnstructuredConverter.FromUnstructured(content, &nested) // refused
	_, _ = resource.ParseQuantity(text)                                         // refused
	_ = new(resource.Quantity).UnmarshalJSON(data)                              // refused
	decode := json.Unmarshal                                                    // refused
	_ = decode(data, &request)

	var none plain
	_ = json.Unmarshal(data, &none)
	_ = experimental.Unmarshal(data, &none)
	_ = json.Unmarshal(data, &content)
	_ = resource.MustParse("1" + "Gi")
	_ = readAny[api.Request]
}

func readAny[T any](data []byte) (out T) {
	_ = json.Unmarshal(data, &out) // refused
	return out
}
