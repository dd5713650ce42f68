package api

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
)

// Code says what went wrong. The list is closed: [Codes] maps each code to its HTTP status, its
// exit code and a title. So a code means the same in an answer, in a condition's reason and in a
// script.
type Code string

const (
	CodeInvalid         Code = "Invalid"            // a field of the input is wrong; nothing was changed
	CodeUnauthenticated Code = "Unauthenticated"    // no certificate or token that we accept
	CodeForbidden       Code = "Forbidden"          // known, but not allowed
	CodeNotFound        Code = "NotFound"           // no such thing, or not yours
	CodeConflict        Code = "Conflict"           // the thing is in another state than the call assumes
	CodePrecondition    Code = "PreconditionFailed" // If-Match names another revision
	CodeKeyReused       Code = "IdempotencyKeyReused"
	CodeTooLarge        Code = "TooLarge"
	CodeTooManyRequests Code = "TooManyRequests"
	CodeNoCandidate     Code = "NoCandidate"  // no cluster can serve the request; the decision says why
	CodeInsufficient    Code = "Insufficient" // it does not fit any more
	CodeCapReached      Code = "CapReached"   // more than the operator lets one member have
	CodeNotMember       Code = "NotMember"    // a certificate is not a membership: wait for approval
	// the operator suspended or revoked this member, or a provider's admin suspended this consumer
	CodeSuspended          Code = "Suspended"
	CodeKeyChanged         Code = "KeyChanged"         // another cluster key than the pinned one
	CodeKeyUnconfirmed     Code = "KeyUnconfirmed"     // a key that no admin confirmed, where that is demanded
	CodeBadSignature       Code = "BadSignature"       // a signed document does not verify
	CodeTokenSpent         Code = "TokenSpent"         // a join token that somebody else used
	CodeStaleAdvertisement Code = "StaleAdvertisement" // a delta whose base we do not have: send the whole
	CodeLedgerFull         Code = "LedgerFull"
	CodeUnreachable        Code = "ApiServerUnreachable" // a provider's API server does not answer from here
	CodeNoNetwork          Code = "NoNetwork"            // no network can be made between the two clusters
	CodeInUse              Code = "InUse"                // this cluster uses the provider in another way
	CodeNamespacesFull     Code = "NamespacesFull"       // the provider maps no more namespaces of this cluster
	CodeVolumesAtStake     Code = "VolumesAtStake"       // it would delete volumes that nobody gave up
	CodeUnavailable        Code = "Unavailable"          // try again later
	CodeInternal           Code = "Internal"
)

// CodeInfo is what a [Code] means outside of Go.
type CodeInfo struct {
	Status int    // HTTP status
	Exit   int    // exit code of the CLI
	Title  string // RFC 9457 title
}

// Codes is the one table of codes. Exit codes: 2 bad input, 3 not allowed, 4 not
// found, 5 state or capacity does not permit it, 6 try again, 1 anything else.
var Codes = map[Code]CodeInfo{
	CodeInvalid:            {http.StatusUnprocessableEntity, 2, "The input is not valid"},
	CodeUnauthenticated:    {http.StatusUnauthorized, 3, "The caller could not be authenticated"},
	CodeForbidden:          {http.StatusForbidden, 3, "Not allowed"},
	CodeNotFound:           {http.StatusNotFound, 4, "Not found"},
	CodeConflict:           {http.StatusConflict, 5, "The state does not permit it"},
	CodePrecondition:       {http.StatusPreconditionFailed, 5, "It changed since you read it"},
	CodeKeyReused:          {http.StatusUnprocessableEntity, 2, "The idempotency key was used for something else"},
	CodeTooLarge:           {http.StatusRequestEntityTooLarge, 2, "The input is too large"},
	CodeTooManyRequests:    {http.StatusTooManyRequests, 6, "Too many requests"},
	CodeNoCandidate:        {http.StatusConflict, 5, "No cluster can serve the request"},
	CodeInsufficient:       {http.StatusConflict, 5, "It does not fit"},
	CodeCapReached:         {http.StatusConflict, 5, "The cap of this member is reached"},
	CodeNotMember:          {http.StatusForbidden, 3, "Not a member yet"},
	CodeSuspended:          {http.StatusForbidden, 3, "The cluster is suspended or revoked"},
	CodeKeyChanged:         {http.StatusForbidden, 3, "The cluster key changed"},
	CodeKeyUnconfirmed:     {http.StatusForbidden, 3, "The cluster key is not confirmed"},
	CodeBadSignature:       {http.StatusUnprocessableEntity, 3, "The signature does not verify"},
	CodeTokenSpent:         {http.StatusForbidden, 3, "The join token is not valid"},
	CodeStaleAdvertisement: {http.StatusConflict, 6, "The advertisement must be sent whole"},
	CodeLedgerFull:         {http.StatusInsufficientStorage, 5, "The ledger is full"},
	CodeUnreachable:        {http.StatusServiceUnavailable, 6, "The provider's API server cannot be reached"},
	CodeNoNetwork:          {http.StatusConflict, 5, "No network can be made between the two clusters"},
	CodeInUse:              {http.StatusConflict, 5, "This cluster uses the provider in another way"},
	CodeNamespacesFull:     {http.StatusConflict, 5, "The provider maps no more namespaces of this cluster"},
	CodeVolumesAtStake:     {http.StatusConflict, 5, "Volumes would be deleted"},
	CodeUnavailable:        {http.StatusServiceUnavailable, 6, "Not available now"},
	CodeInternal:           {http.StatusInternalServerError, 1, "Internal error"},
}

// Error is every error that crosses a boundary of Bourse, and the body of every
// REST answer that is not a success (RFC 9457, application/problem+json).
type Error struct {
	// Code is one of [Codes].
	Code Code `json:"code"`
	// Title is the code in words; Status the HTTP status. Both follow from Code.
	Title  string `json:"title"`
	Status int    `json:"status"`
	// Detail says what happened, naming the value.
	Detail string `json:"detail"`
	// Field is the JSON path of the input that is wrong, if one is.
	Field string `json:"field,omitempty"`
	// Remedy is what the reader can do about it.
	Remedy string `json:"remedy,omitempty"`
	// Argv is the remedy as the arguments of one command, if it is one. A program runs it only for a user who agrees.
	Argv Command `json:"argv,omitempty"`
	// Decision is the explanation that came with NoCandidate.
	Decision *Decision `json:"decision,omitempty"`
	// Volumes are those that came with VolumesAtStake.
	Volumes *Volumes `json:"volumes,omitempty"`
}

// Errorf makes an Error of the code, with a detail. It leaves out the code of an Error in args.
func Errorf(code Code, format string, args ...any) *Error {
	info := Codes[code]
	args = slices.Clone(args)
	for i, arg := range args {
		if e, ok := arg.(*Error); ok {
			args[i] = WithoutCode(e.Error())
		}
	}
	return &Error{Code: code, Title: info.Title, Status: info.Status, Detail: fmt.Sprintf(format, args...)}
}

// Invalid makes the Error for a wrong field of the input.
func Invalid(field, format string, args ...any) *Error {
	return Errorf(CodeInvalid, format, args...).At(field)
}

// At names the field that the error is about.
func (e *Error) At(field string) *Error { e.Field = field; return e }

// Fix says what the reader can do about the error.
func (e *Error) Fix(format string, args ...any) *Error {
	e.Remedy, e.Argv = fmt.Sprintf(format, args...), nil
	return e
}

// Error is one line: code, field, detail and remedy.
func (e *Error) Error() string {
	s := string(e.Code) + ": "
	if e.Field != "" {
		s += e.Field + ": "
	}
	s += e.Detail
	if e.Remedy != "" {
		s += "; " + e.Remedy
	}
	return s
}

// RefusesMember reports whether a broker answers with this code because the cluster is no member that may act: nobody has
// approved it yet, or it is suspended or revoked.
func (c Code) RefusesMember() bool { return c == CodeNotMember || c == CodeSuspended }

// WithoutCode returns the text of an error without the code that it begins with, for a place that
// shows the code.
func WithoutCode(text string) string {
	code, rest, _ := strings.Cut(text, ": ")
	if _, known := Codes[Code(code)]; known {
		return rest
	}
	return text
}

// CutText returns a text of at most so many bytes. A longer one ends with "...", and has no half characters.
func CutText(text string, most int) string {
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most-len("...")], "") + "..."
}

// GetStatus makes an Error an answer of the REST framework.
func (e *Error) GetStatus() int { return e.Status }

// ContentType says that an Error is an RFC 9457 problem.
func (e *Error) ContentType(string) string { return "application/problem+json" }

// IsTemporary reports whether the same call may succeed later: the error is Unavailable, TooManyRequests or
// Internal.
func IsTemporary(err error) bool {
	if err == nil {
		return false
	}
	switch CodeOf(err) {
	case CodeUnavailable, CodeTooManyRequests, CodeInternal:
		return true
	}
	return false
}

// CodeOf returns the code that an error carries, or Internal.
func CodeOf(err error) Code {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Code
	}
	return CodeInternal
}
