package server_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/bourse-dev/bourse/api"
)

// Values that no cluster has, and names that are none.
func TestHostileValues(t *testing.T) {
	w := newFixture(t)
	ask := func(name, request, field string) call {
		return call{name: name, by: w.rome.HTTP, method: "POST", path: "/reservations",
			body: `{"request":` + request + `}`, want: api.CodeInvalid, field: field}
	}
	cpu := func(name, amount string) call {
		return ask(name, `{"resources":{"cpu":`+amount+`}}`, "request.resources.cpu")
	}
	with := func(name, more, field string) call {
		return ask(name, `{"resources":{"cpu":"1"},`+more+`}`, "request."+field)
	}
	advertise := func(name, body, field string) call {
		return call{name: name, by: w.milan.HTTP, method: "PUT", path: "/clusters/milan/advertisement",
			body: body, want: api.CodeInvalid, field: field}
	}
	many := make([]string, 400)
	for i := range many {
		many[i] = fmt.Sprintf(`"c%d":"1"`, i)
	}
	crowd := `["` + strings.Repeat(`c","`, 400) + `c"]`
	verbose := map[string]string{}
	for i := range 32 {
		verbose[fmt.Sprint(i, strings.Repeat("\u00e9", 300))] = strings.Repeat("\u20ac", 300)
	}
	properties, err := json.Marshal(verbose)
	if err != nil {
		t.Fatal(err)
	}
	loop := strings.Repeat("zones.all(a, ", 6) + "true" + strings.Repeat(")", 6)
	w.refused(t, []call{
		cpu("a negative amount", `"-1"`),
		cpu("an amount of words", `"all"`),
		cpu("no amount", `""`),
		cpu("an amount in a number", `1`),
		cpu("an amount of null", `null`),
		cpu("more than any cluster has", `"999E"`),
		cpu("an amount of many digits", `"`+strings.Repeat("9", 5000)+`"`),
		ask("nothing at all", `{"resources":{}}`, "request.resources"),
		ask("zero", `{"resources":{"cpu":"0"}}`, "request.resources"),
		ask("a resource that cannot be", `{"resources":{"no such/thing\u0000":"1"}}`, "request.resources"),
		ask("a resource with an escape", `{"resources":{"a\u001b[2J":"1"}}`, "request.resources"),
		ask("too many resources", `{"resources":{`+strings.Join(many, ",")+`}}`, "request.resources"),

		with("a short duration", `"duration":"1s"`, "duration"),
		with("a negative duration", `"duration":"-1h"`, "duration"),
		with("a duration of years", `"duration":"100000h"`, "duration"),
		with("a duration of words", `"duration":"for ever"`, "duration"),
		with("a pool that is no name", `"pool":"a b"`, "pool"),
		with("a pool with a NUL", `"pool":"a\u0000"`, "pool"),
		with("a target that is no name", `"target":"../milan"`, "target"),
		with("an excluded cluster that is no name", `"exclude":["Milan"]`, "exclude"),
		with("too many excluded", `"exclude":`+crowd, "exclude"),
		with("too many preferred", `"prefer":`+crowd, "prefer"),
		with("an unknown strategy", `"strategy":"cheapest"`, "strategy"),
		with("a property with an escape", `"properties":{"a":"\u001b[2J"}`, "properties"),
		with("a property of many characters", `"properties":{"a":"`+strings.Repeat("x", 400)+`"}`, "properties"),
		{name: "more than a journal keeps of one request", by: w.rome.HTTP, method: "POST", path: "/reservations",
			body: `{"request":{"resources":{"cpu":"1"},"properties":` + string(properties) + `}}`, want: api.CodeTooLarge, field: "request"},
		with("no wait", `"wait":"0s"`, "wait"),
		with("a wait of the past", `"wait":"-1h"`, "wait"),
		with("an endless wait", `"wait":"721h"`, "wait"),
		with("a wait that is none", `"wait":"soon"`, "wait"),
		with("a priority above all", `"priority":101`, "priority"),
		with("a priority below all", `"priority":-2147483648`, "priority"),
		with("more parts than may be", `"split":9`, "split"),
		with("fewer parts than none", `"split":-1`, "split"),
		with("parts that wait", `"split":2,"wait":"1h"`, "split"),
		with("parts of one target", `"split":2,"target":"milan"`, "split"),
		with("CEL that is none", `"where":"region =="`, "where"),
		with("CEL of what is unknown", `"where":"secret == 1"`, "where"),
		with("CEL that is no condition", `"where":"1 + 1"`, "where"),
		with("CEL with a NUL", `"where":"region == \"\u0000"`, "where"),
		with("endless CEL", `"where":"`+loop+`"`, "where"),
		with("long CEL", `"where":"`+strings.Repeat("true&&", 500)+`true"`, "where"),

		advertise("an advertisement without a sequence", `{"sequence":{"incarnation":0,"number":0}}`, "sequence"),
		advertise("a negative sequence", `{"sequence":{"incarnation":-1,"number":5}}`, "sequence"),
		advertise("a negative capacity", `{"sequence":{"incarnation":1,"number":9},"pools":{"general":{"capacity":{"cpu":"-1"}}}}`, "pools.general.capacity.cpu"),
		advertise("a pool that is no name", `{"sequence":{"incarnation":1,"number":9},"pools":{"a\u001b":{}}}`, "pools"),
		advertise("endless terms", `{"sequence":{"incarnation":1,"number":9},"terms":{"allow":"`+strings.ReplaceAll(loop, "zones", "consumer.zones")+`"}}`, "terms.allow"),
		advertise("terms for everybody by name",
			`{"sequence":{"incarnation":1,"number":9},"terms":{"visibleTo":{"clusters":`+crowd+`}}}`, "terms.visibleTo.clusters"),
		advertise("terms for no time", `{"sequence":{"incarnation":1,"number":9},"terms":{"maxDuration":"-1h"}}`, "terms.maxDuration"),
		advertise("more than any cluster has", `{"sequence":{"incarnation":1,"number":9},"pools":{"general":{"accounts":{"rome":{"used":{"cpu":"1125899906842624"}},"oslo":{"used":{"cpu":"1125899906842624"}}}}}}`, "pools.general.accounts"),
		{name: "the advertisement that is there", by: w.milan.HTTP, method: "PUT", path: "/clusters/milan/advertisement",
			body: `{"sequence":{"incarnation":1,"number":1}}`, want: api.CodeStaleAdvertisement},
		{name: "a delta of another base", by: w.milan.HTTP, method: "PATCH", path: "/clusters/milan/advertisement",
			body: `{"base":{"incarnation":7,"number":1},"sequence":{"incarnation":7,"number":2}}`, want: api.CodeStaleAdvertisement, field: "base"},
		{name: "a delta that goes back", by: w.milan.HTTP, method: "PATCH", path: "/clusters/milan/advertisement",
			body: `{"base":{"incarnation":1,"number":1},"sequence":{"incarnation":1,"number":1}}`, want: api.CodeStaleAdvertisement},

		{name: "an If-Match that is none", by: w.rome.HTTP, method: "POST", path: "/reservations/" + w.bound.ID + "/progress", body: `{"state":"Active"}`, header: map[string]string{"If-Match": `W/"1"`}, want: api.CodeInvalid, field: "If-Match"},
		{name: "an If-Match of the past", by: w.rome.HTTP, method: "POST", path: "/reservations/" + w.bound.ID + "/progress", body: `{"state":"Active"}`, header: map[string]string{"If-Match": `"1"`}, want: api.CodePrecondition, field: "If-Match"},
		{name: "progress to what is none", by: w.rome.HTTP, method: "POST", path: "/reservations/" + w.bound.ID + "/progress", body: `{"state":"Held"}`, want: api.CodeInvalid, field: "state"},
		{name: "a refusal for a reason of one's own", by: w.milan.HTTP, method: "POST", path: "/reservations/" + w.signed.ID + "/refuse", body: `{"generation":1,"reason":"\u001b[2J"}`, want: api.CodeInvalid, field: "reason"},
		{name: "a refusal of many words", by: w.milan.HTTP, method: "POST", path: "/reservations/" + w.signed.ID + "/refuse", body: `{"generation":1,"reason":"PolicyRefuses","message":"` + strings.Repeat("x", 2000) + `"}`, want: api.CodeInvalid, field: "message"},
		{name: "a refusal with an absurd advertisement", by: w.milan.HTTP, method: "POST", path: "/reservations/" + w.signed.ID + "/refuse", body: `{"generation":1,"reason":"Insufficient","advertisement":{"sequence":{"incarnation":0,"number":0}}}`, want: api.CodeInvalid, field: "advertisement.sequence"},
		{name: "a token for a cluster that cannot be", by: w.OperatorHTTP, method: "POST", path: "/tokens", body: `{"cluster":"No Name"}`, want: api.CodeInvalid, field: "cluster"},
		{name: "a token that is too old already", by: w.OperatorHTTP, method: "POST", path: "/tokens", body: `{"ttl":"-1h"}`, want: api.CodeInvalid, field: "ttl"},
		{name: "a token for ever", by: w.OperatorHTTP, method: "POST", path: "/tokens", body: `{"ttl":"100000h"}`, want: api.CodeInvalid, field: "ttl"},
		{name: "a step that is none", by: w.OperatorHTTP, method: "POST",
			path: "/members/rome/promote", want: api.CodeInvalid, field: "path.step"},
	})
}
