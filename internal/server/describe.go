package server

import (
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/bourse-dev/bourse/api"
)

// access says in the description of an API who may call it.
type access struct {
	server      string
	description string
	schemes     map[string]*huma.SecurityScheme
	// of returns the schemes of one operation; any one of them is enough. An empty one needs nothing.
	of func(*huma.Operation) []map[string][]string
}

func needs(schemes ...string) (out []map[string][]string) {
	for _, name := range schemes {
		scheme := map[string][]string{}
		if name != "" {
			scheme[name] = []string{}
		}
		out = append(out, scheme)
	}
	return out
}

// toBroker is the access to a broker.
var toBroker = access{
	server:      "https://broker.example.org:7443",
	description: "The URL that join tokens hold.",
	schemes: map[string]*huma.SecurityScheme{
		"member": {Type: "mutualTLS", Description: "The client certificate of a member. POST /join issues it."},
		"operator": {Type: "mutualTLS",
			Description: "The client certificate of an operator, in the folder `operator` of the broker's --dir. The broker's " +
				"local socket needs none."},
	},
	of: func(o *huma.Operation) []map[string][]string {
		switch {
		case o.Path == joinPath || o.Path == renewPath:
			return needs("")
		case strings.HasSuffix(o.Summary, "(operators)"), strings.HasSuffix(o.Summary, "local socket)"):
			return needs("operator")
		case o.Path == api.Prefix+"/clusters", o.Path == api.Prefix+"/clusters/{cluster}":
			return needs("member", "operator")
		}
		return needs("member")
	},
}

// toAgent is the access to an agent.
var toAgent = access{
	server:      "http://127.0.0.1:7080",
	description: "The address of --listen. The unix socket of --socket serves the same without a token.",
	schemes: map[string]*huma.SecurityScheme{
		"token": {Type: "http", Scheme: "bearer", Description: "The content of --token-file."},
	},
	of: func(*huma.Operation) []map[string][]string { return needs("token", "") },
}

// signedDocuments describes the form of the documents that clusters sign.
const signedDocuments = "Fields such as `card`, `assignment`, `acceptance`, `offer`, `end` and `document` hold " +
	"signed documents: a JWS in compact form " +
	"(RFC 7515), `HEADER.PAYLOAD.SIGNATURE`, each part in base64url without padding.\n\n" +
	"- HEADER is `{\"alg\":\"EdDSA\",\"kid\":FINGERPRINT,\"typ\":TYPE}`, with exactly these members. FINGERPRINT is " +
	"that of the signer's cluster key: " +
	"`SHA256:` and the SHA-256 of the 32 bytes of the public key, in base64url without padding. TYPE is " +
	"`bourse/KIND+jws`; KIND is " +
	"`card`, `assignment`, `acceptance`, `end`, `reclaim`, `handshake`, `offer`, `proposal`, `vouch`, " +
	"`endorsement` or `rotation`.\n" +
	"- PAYLOAD is canonical JSON (RFC 8785) of the type of that name in package api. Unknown members are refused.\n" +
	"- SIGNATURE is the Ed25519 signature (RFC 8032) of the text `HEADER.PAYLOAD`.\n\n" +
	"`docs/examples/sign.sh` signs a document with OpenSSL. `docs/examples/reserve.sh` makes a whole " +
	"reservation with curl."

// describe completes the description of an API: who may call what, where, and with which errors.
func describe(a huma.API, who access) {
	doc := a.OpenAPI()
	doc.Info.Description += "\n\n" + signedDocuments
	doc.Info.License = &huma.License{Name: "Apache 2.0", Identifier: "Apache-2.0"}
	doc.Servers = []*huma.Server{{URL: who.server, Description: who.description}}
	doc.Components.SecuritySchemes = who.schemes
	if problem := doc.Components.Schemas.Map()["Error"]; problem != nil {
		describeCodes(problem.Properties["code"])
	}
	for _, path := range doc.Paths {
		for _, o := range []*huma.Operation{path.Get, path.Put, path.Post, path.Patch, path.Delete} {
			if o == nil {
				continue
			}
			o.Security = who.of(o)
			o.Responses["4XX"] = o.Responses["default"]
			if o.OperationID == "watch" {
				o.Responses["200"] = &huma.Response{
					Description: "One JSON object per line, without end.",
					Content: map[string]*huma.MediaType{"application/x-ndjson": {
						Schema: doc.Components.Schemas.Schema(reflect.TypeFor[api.WatchEvent](), true, "WatchEvent"),
					}},
				}
			}
		}
	}
}

// describeCodes lists the codes of errors in the schema of the field that holds one.
func describeCodes(field *huma.Schema) {
	var lines []string
	field.Enum = nil
	for _, code := range slices.Sorted(maps.Keys(api.Codes)) {
		info := api.Codes[code]
		field.Enum = append(field.Enum, string(code))
		lines = append(lines, "- "+string(code)+": "+info.Title+" (HTTP "+strconv.Itoa(info.Status)+")")
	}
	field.Description = strings.Join(lines, "\n")
}
