// Package act binds what an admin does to an object by an annotation to what the admin saw of the object.
//
// The agent shows the [Digest] of what there is to act on in the object's status. The admin writes that digest into
// the annotation of an [Act]. [Act.Decide] compares the two: the agent carries out the act, or it does nothing.
// [Act.Answer] is what the agent answers either way. The agent notes the value that it answered in the status, and
// acts only on another one. An act that can harm nothing takes the time of the order instead of a digest.
package act

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/bourse-dev/bourse/api"
)

// Act is something that an admin does to an object by an annotation.
type Act struct {
	// Name is the annotation's key after "bourse.dev/", and the key of its answered value in the status.
	Name string
	// Done is the reason of the answer once the act is carried out.
	Done string
	// TakesText says that the digest may be followed by a space and a text.
	TakesText bool
	// TakesTime says that the value is the time of the order (RFC 3339), and no digest.
	TakesTime bool
	// Kind is the resource as kubectl names it, and Shows the field with the digest as a JSONPath of kubectl.
	Kind, Shows string
}

// Annotation returns the key of the annotation.
func (a Act) Annotation() string { return api.Group + "/" + a.Name }

// Step is what the agent does about the value of an annotation.
type Step int

// The steps. CarryOut alone changes more than the answer.
const (
	Nothing      Step = iota // the value was answered before
	CarryOut                 // the admin saw what there is now
	ChangedSince             // the value has another digest
	Invalid                  // the value has no digest, or is no time
)

// Order is the value of an annotation, and what the agent does about it.
type Order struct {
	Step Step
	// Value is what the answer names and the status notes: DIGEST or DIGEST.NONCE, a time, or the quoted beginning of a
	// value that is none of these. It has at most 258 characters, all of printable ASCII.
	Value string
	// Text is what follows the digest. It has any length, and any characters: see trust.Text.
	Text string
}

// maxQuoted is how many bytes of a value that is not valid are quoted.
const maxQuoted = 64

// digest is what a value begins with. The admin chooses the nonce: the same digest with another nonce is another value.
var digest = regexp.MustCompile(`^([0-9a-f]{16})(\.[a-z0-9]{1,32})?$`)

// isTime reports whether a value is a time. None is longer than one with nanoseconds.
func isTime(value string) bool {
	_, err := time.Parse(time.RFC3339, value)
	return err == nil && len(value) <= len(time.RFC3339Nano)
}

// Decide returns what to do about the value of the annotation. now is the digest of what there is to act on, empty
// for nothing. answered is the Value of the last order that was answered.
func (a Act) Decide(value, now, answered string) Order {
	var o Order
	if o.Value = value; a.TakesText {
		o.Value, o.Text, _ = strings.Cut(value, " ")
	}
	found := digest.FindStringSubmatch(o.Value)
	if a.TakesTime {
		if found = nil; isTime(value) {
			found = []string{value, now}
		}
	}
	if found == nil {
		o = Order{Value: fmt.Sprintf("%+q", value[:min(len(value), maxQuoted)])}
	}
	switch {
	case o.Value == answered:
		o.Step = Nothing
	case found == nil:
		o.Step = Invalid
	case found[1] != now:
		o.Step = ChangedSince
	default:
		o.Step = CarryOut
	}
	return o
}

// Digest returns 16 lower-case hexadecimal digits that stand for all parts. One part is the UID of the object. Another
// cluster does not know it, and so cannot look for terms that have the same digest.
func Digest(parts ...string) string {
	h := sha256.New()
	for _, part := range parts {
		fmt.Fprintf(h, "%d:%s,", len(part), part)
	}
	return hex.EncodeToString(h.Sum(nil)[:8])
}
