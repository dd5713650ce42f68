// Package cli is the command line: the broker and the agent as programs, and the commands
// of operators, admins and users.
//
// A user's command reaches a cluster by a kubeconfig, or asks an agent at its listener: ways says which is first. An
// operator's command finds the broker through --server, else BOURSE_SERVER, else at the broker's socket. Answers go
// to stdout in the format of -o.
// Progress and errors go to stderr. The exit code tells the kind of error (api.Codes).
package cli
