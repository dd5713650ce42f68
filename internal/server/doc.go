// Package server is Bourse's REST API: it turns calls into commands of the market,
// and the market's records into payloads.
//
// Everything lives under /apis/bourse.dev/v1alpha1, described by the OpenAPI 3.1
// document that is served at /openapi.json and generated from the handlers here.
// Errors are RFC 9457 problems with one of the codes of package api. Who calls is
// established once, in caller.go; what a caller does not own is not found.
//
// The same handler serves the broker's TLS listener, where a certificate says who
// calls, and its local socket, where each caller is an operator.
package server
