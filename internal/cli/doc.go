// Package cli is the command line: the broker and the agent as programs, and what
// operators and the people of a cluster do with them.
//
// A command that talks to a server finds it by --server, else BOURSE_SERVER, else at the
// socket where an agent (or, for operators' commands, a broker) of this user listens. Answers go to
// stdout in the form that -o asks for, progress and errors to stderr, and the exit code
// says what kind of error it was (api.Codes).
package cli
