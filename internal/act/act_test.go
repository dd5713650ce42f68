package act_test

import (
	"errors"
	"strings"
	"testing"
	"unicode"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/act"
)

const now, old = "0123456789abcdef", "fedcba9876543210"

var (
	approve = act.Act{Name: "approve", Done: "Approved", Kind: "providerinstruction", Shows: ".status.approval"}
	refuse  = act.Act{Name: "refuse", Done: "Refused", Kind: "providerinstruction", Shows: ".status.approval",
		TakesText: true}
	again = act.Act{Name: "publish-again", Done: "PublishedAgain", Kind: "offer", TakesTime: true}
)

func TestDecide(t *testing.T) {
	z32, huge := strings.Repeat("z", 32), strings.Repeat("a", 250_000)
	order := func(step act.Step, value, text string) act.Order {
		return act.Order{Step: step, Value: value, Text: text}
	}
	for name, c := range map[string]struct {
		act                  act.Act
		value, now, answered string
		want                 act.Order
	}{
		"what there is":          {approve, now, now, "", order(act.CarryOut, now, "")},
		"with a nonce":           {approve, now + ".a1", now, "", order(act.CarryOut, now+".a1", "")},
		"the longest nonce":      {approve, now + "." + z32, now, "", order(act.CarryOut, now+"."+z32, "")},
		"once more":              {approve, now, now, now, order(act.Nothing, now, "")},
		"once more with a nonce": {approve, now + ".2", now, now, order(act.CarryOut, now+".2", "")},
		"another one before":     {approve, now, now, old, order(act.CarryOut, now, "")},
		"an old one":             {approve, old, now, "", order(act.ChangedSince, old, "")},
		"an old one, answered":   {approve, old, now, old, order(act.Nothing, old, "")},
		"nothing is there":       {approve, now, "", "", order(act.ChangedSince, now, "")},
		"true":                   {approve, "true", now, "", order(act.Invalid, `"true"`, "")},
		"true, answered":         {approve, "true", now, `"true"`, order(act.Nothing, `"true"`, "")},
		"empty":                  {approve, "", "", "", order(act.Invalid, `""`, "")},
		"an empty nonce":         {approve, now + ".", now, "", order(act.Invalid, `"`+now+`."`, "")},
		"a nonce too long":       {approve, now + "." + z32 + "z", now, "", order(act.Invalid, `"`+now+"."+z32+`z"`, "")},
		"capitals":               {approve, strings.ToUpper(now), now, "", order(act.Invalid, `"0123456789ABCDEF"`, "")},
		"a line end":             {approve, now + "\n", now, "", order(act.Invalid, `"`+now+`\n"`, "")},
		"an approval's text":     {approve, now + " yes", now, "", order(act.Invalid, `"`+now+` yes"`, "")},
		"a refusal's text":       {refuse, now + ".x not  now", now, "", order(act.CarryOut, now+".x", "not  now")},
		"a refusal without":      {refuse, now, now, "", order(act.CarryOut, now, "")},
		"another text":           {refuse, now + " never", now, now, order(act.Nothing, now, "never")},
		"a text and no digest":   {refuse, "not now", now, "", order(act.Invalid, `"not now"`, "")},
		"terminal characters":    {refuse, "\x1b[2J\u202e", now, "", order(act.Invalid, `"\x1b[2J\u202e"`, "")},
		"huge":                   {approve, huge, now, "", order(act.Invalid, `"`+huge[:64]+`"`, "")},
		"a huge one, answered":   {approve, huge, now, `"` + huge[:64] + `"`, order(act.Nothing, `"`+huge[:64]+`"`, "")},
		"a huge text":            {refuse, now + " " + huge, now, "", order(act.CarryOut, now, huge)},
		"a time":                 {again, "2026-11-29T22:00:00Z", "", "", order(act.CarryOut, "2026-11-29T22:00:00Z", "")},
		"a time, answered": {again, "2026-11-29T22:00:00Z", "", "2026-11-29T22:00:00Z",
			order(act.Nothing, "2026-11-29T22:00:00Z", "")},
		"a later time": {again, "2026-11-29T22:00:00.5+01:00", "", "2026-11-29T22:00:00Z",
			order(act.CarryOut, "2026-11-29T22:00:00.5+01:00", "")},
		"a time of many digits": {again, "2026-11-29T22:00:00." + strings.Repeat("0", 99) + "Z", "", "",
			order(act.Invalid, `"2026-11-29T22:00:00.`+strings.Repeat("0", 44)+`"`, "")},
		"no time":              {again, now, now, "", order(act.Invalid, `"`+now+`"`, "")},
		"a time for a digest":  {approve, "2026-11-29T22:00:00Z", now, "", order(act.Invalid, `"2026-11-29T22:00:00Z"`, "")},
		"a digest at its head": {refuse, now + huge, now, "", order(act.Invalid, `"`+now+huge[:48]+`"`, "")},
	} {
		if got := c.act.Decide(c.value, c.now, c.answered); got != c.want {
			t.Errorf("%s: step %d of %q, %.80q, want %d of %q, %.80q",
				name, got.Step, got.Value, got.Text, c.want.Step, c.want.Value, c.want.Text)
		}
	}
}

// An answer names the value and what to do, fits a condition, and harms no terminal.
func TestAnswer(t *testing.T) {
	object := &api.ProviderInstruction{ObjectMeta: metav1.ObjectMeta{Namespace: "bourse", Name: "r-1"}}
	conflict := api.Errorf(api.CodeConflict, "reservation r-1 has been approved").Fix("end it")
	suspended := api.Errorf(api.CodeSuspended, "rome is")
	looks := "kubectl -n bourse get providerinstruction r-1 -o 'jsonpath={.status.approval}'"
	acts := "kubectl -n bourse annotate --overwrite providerinstruction r-1 bourse.dev/approve=DIGEST"
	for name, c := range map[string]struct {
		value  string
		failed error
		status metav1.ConditionStatus
		reason string
		says   []string
	}{
		"done":         {now, nil, "True", "Approved", []string{now}},
		"changed":      {old + ".n", nil, "False", "ChangedSince", []string{old + ".n", looks, acts}},
		"invalid":      {"true", nil, "False", "Invalid", []string{`"true"`, looks, acts}},
		"hostile":      {strings.Repeat("\U000e0001", 60_000), nil, "False", "Invalid", []string{`"\U000e0001`}},
		"answered":     {now, conflict, "False", "ChangedSince", []string{now, "r-1 has been approved; end it", looks}},
		"is suspended": {now, suspended, "False", "Suspended", []string{now, "rome is", acts + ".2"}},
	} {
		got, err := approve.Answer(object, approve.Decide(c.value, now, ""), c.failed)
		if err != nil || got.Status != c.status || got.Reason != c.reason || len(got.Message) > 2048 {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
		for _, part := range c.says {
			if !strings.Contains(got.Message, part) {
				t.Errorf("%s: the answer lacks %s: %s", name, part, got.Message)
			}
		}
		if strings.ContainsFunc(got.Message, func(r rune) bool { return !unicode.IsPrint(r) }) {
			t.Errorf("%s: %q", name, got.Message)
		}
	}
	for _, failed := range []error{errors.New("no"), api.Errorf(api.CodeUnavailable, "no")} {
		if got, err := approve.Answer(object, approve.Decide(now, now, ""), failed); !errors.Is(err, failed) {
			t.Errorf("what may still succeed is answered: %+v, %v", got, err)
		}
	}
}

// A digest is of the parts as they are divided.
func TestDigest(t *testing.T) {
	seen := map[string]bool{}
	for _, parts := range [][]string{{}, {""}, {"a", "b"}, {"ab"}, {"a,b"}, {"a,1:b"}, {"b", "a"}, {"a", "b", ""}} {
		d := act.Digest(parts...)
		if seen[d] || d != act.Digest(parts...) || approve.Decide(d, d, "").Step != act.CarryOut {
			t.Errorf("%q has the digest %s", parts, d)
		}
		seen[d] = true
	}
}

// The answer to an act that takes a time says what time to name.
func TestAnswerToATime(t *testing.T) {
	object := &api.Offer{ObjectMeta: metav1.ObjectMeta{Namespace: "bourse", Name: "web"}}
	acts := `kubectl -n bourse annotate --overwrite offer web "bourse.dev/publish-again=$(date -u +%FT%TZ)"`
	for _, c := range []struct {
		value          string
		failed         error
		reason, before string
	}{
		{"2026-11-29T22:00:00Z", nil, "PublishedAgain", "it is carried out"},
		{"true", nil, "Invalid", "it must be a time"},
		{"2026-11-29T22:00:00Z", api.Errorf(api.CodeForbidden, "it is a draft"), "Forbidden", "it is a draft; nothing was changed"},
	} {
		got, err := again.Answer(object, again.Decide(c.value, "", ""), c.failed)
		if err != nil || got.Reason != c.reason || !strings.Contains(got.Message, c.before) ||
			strings.HasSuffix(got.Message, acts) == (c.reason == "PublishedAgain") {
			t.Errorf("%s: %+v, %v", c.value, got, err)
		}
	}
}
