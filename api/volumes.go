package api

import (
	"fmt"
	"strings"
)

// Names on a ResourceRequest whose end would delete volumes.
const (
	// VolumesMayDie is the annotation with which a user gives up the volumes of a request. Its
	// value is the digest of their list: it is void when the list changes.
	VolumesMayDie = Group + "/volumes-may-die"
	// VolumesFinalizer delays the deletion of a request until no volume is at stake, or its user
	// gave up the volumes.
	VolumesFinalizer = Group + "/volumes"
)

// Volumes are PersistentVolumeClaims whose data is at a provider, which deletes the data with a reservation.
type Volumes struct {
	// Digest of the whole list: who gives it back gives up these volumes, and no others.
	Digest string `json:"digest"`
	// Count is the number of claims.
	Count int `json:"count"`
	// Claims names the first 20 of them as NAMESPACE/NAME.
	Claims []string `json:"claims"`
}

// namedAtMost is how many claims or pods an answer or a text names.
const namedAtMost = 20

// First returns the first of the names, as many as an answer has.
func First(names []string) []string { return names[:min(len(names), namedAtMost)] }

// First returns the volumes with the names of the first claims.
func (v Volumes) First() *Volumes {
	v.Claims = First(v.Claims)
	return &v
}

// String names the first of the volumes.
func (v *Volumes) String() string { return listed(v.Count, "volume", v.Claims) }

// listed counts things, and names the first.
func listed(count int, noun string, names []string) string {
	names = First(names)
	if count != 1 {
		noun += "s"
	}
	text := fmt.Sprintf("%d %s", count, noun)
	if rest := count - len(names); len(names) == 0 {
		return text
	} else if rest > 0 {
		return fmt.Sprintf("%s (%s and %d more)", text, strings.Join(names, ", "), rest)
	}
	return fmt.Sprintf("%s (%s)", text, strings.Join(names, ", "))
}

// CheckGivenUp returns why an object may not end: word is not the digest of the volumes, nil for none, that end with it.
// name and remedy are for the error: the remedy ends with a command that takes the digest. Errors: VolumesAtStake.
func (v *Volumes) CheckGivenUp(word, name, remedy string) error {
	if v == nil || word == v.Digest {
		return nil
	}
	refusal := Errorf(CodeVolumesAtStake, "%s would be deleted with %s", v, name).
		Fix("%s --volumes-die %s", remedy, v.Digest)
	refusal.Volumes = v.First()
	return refusal
}

// Release is the body with which a user releases a reservation. It may be absent.
type Release struct {
	// VolumesDie is the digest that the refusal VolumesAtStake gave: it gives up the volumes.
	// Empty: none may be deleted.
	VolumesDie string `json:"volumesDie,omitempty" maxLength:"64"`
}
