// Package charts tests the Helm charts: what they are made of, what they render, and how they install, upgrade and
// go on a real API server.
//
// What a chart shares with config is generated: go test ./test/charts -run TestGenerated -update.
package charts
