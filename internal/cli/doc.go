// Package cli is the command line: the broker and the agent as programs, and the commands
// of operators, admins and users.
//
// A command finds its server through --server, else BOURSE_SERVER, else at the socket where an agent
// (or, for operators' commands, a broker) of this user listens. Answers go to stdout in the format of -o.
// Progress and errors go to stderr. The exit code tells the kind of error (api.Codes).
package cli
