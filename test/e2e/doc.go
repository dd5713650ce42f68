// Package e2e tests a whole federation as its users run it: three real Kubernetes clusters with
// authorization on, the real binary as a broker and as agents with the rights of config/rbac,
// killed by SIGKILL where they are killed.
//
// All tests share one federation, started by the first of them, and leave it as they found it. It
// takes a minute of two cores; what it says is in a folder that stays when a test fails. go test
// -short skips all of it.
package e2e
