package server_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/decoded"
	"github.com/bourse-dev/bourse/internal/decoded/decodedtest"
	"github.com/bourse-dev/bourse/internal/server/servertest"
	"github.com/bourse-dev/bourse/test/raced"
)

// advertise sends a body as a member's advertisement, and returns the answer.
func advertise(t *testing.T, m *servertest.Member, method, url, body string) (status int, answer string) {
	r, _ := http.NewRequest(method, url+prefix+"/clusters/"+m.ID+"/advertisement", strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	response, err := m.HTTP.Do(r)
	if err != nil {
		t.Error(err)
		return 0, ""
	}
	defer response.Body.Close()
	data, _ := io.ReadAll(io.LimitReader(response.Body, 1000))
	return response.StatusCode, string(data)
}

// Large bodies with any content take no more of a broker's memory than all of them together may take.
func TestLargeBodiesTakeLittleMemory(t *testing.T) {
	raced.Skip(t)
	commitments := func(size int) string {
		var b strings.Builder
		for i := 0; b.Len() < size; i++ {
			fmt.Fprintf(&b, `"%d":{"":"1"},`, i)
		}
		return b.String() + `"a":{}`
	}
	fill := func(value string, size int) string { return strings.Repeat(value+",", size/(len(value)+1)-1) + value }
	const most = 8<<20 - 1000
	fields := func(size int) string {
		var b strings.Builder
		for i := 0; b.Len() < size; i++ {
			fmt.Fprintf(&b, `"%d":0,`, i)
		}
		return b.String() + `"a":0`
	}
	for _, c := range []struct{ name, method, body string }{
		{"small objects", "PUT", `{"x":[` + fill(`{"":0}`, most) + `]}`},
		{"as many small objects as are read", "PUT", `{"x":[` + fill(`{"":0}`, 1600<<10) + `]}`},
		{"empty objects", "PUT", `{"x":[` + fill(`{}`, most) + `]}`},
		{"as many empty objects as are read", "PUT", `{"x":[` + fill(`{}`, 700<<10) + `]}`},
		{"numbers", "PUT", `{"x":[` + fill(`0`, most) + `]}`},
		{"as many numbers as are read", "PUT", `{"x":[` + fill(`0`, 5<<20) + `]}`},
		{"unknown fields", "PUT", `{` + fields(7<<20) + `}`},
		{"commitments", "PUT", `{"sequence":{"incarnation":1,"number":1},"pools":{"a":{"accounts":{"b":{"commitments":{` +
			commitments(7<<20) + `}}}}}}`},
		{"as many commitments as are read", "PATCH",
			`{"base":{"incarnation":1,"number":1},"sequence":{"incarnation":1,"number":2},"pools":{"a":{"accounts":{"b":{"commitments":{` + commitments(3500<<10) + `}}}}}}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := servertest.Start(t, servertest.Options{})
			var members []*servertest.Member
			for i := range 4 {
				members = append(members, f.Join(fmt.Sprint("member-", i)))
			}
			said := ""
			took := decodedtest.HeapDuring(func() {
				var all sync.WaitGroup
				for i, m := range members {
					for j := range 2 {
						all.Go(func() {
							status, answer := advertise(t, m, c.method, f.URL, c.body)
							if i+j == 0 {
								said = fmt.Sprint(status, " ", answer)
							}
							if status == http.StatusOK || status >= 500 {
								t.Errorf("%d %s", status, answer)
							}
						})
					}
				}
				all.Wait()
			})
			t.Logf("8 bodies of %d KiB: %d MiB of heap; %.300s", len(c.body)>>10, took, said)
			if took > 400 {
				t.Errorf("8 bodies of %d KiB take %d MiB of heap, want at most 400", len(c.body)>>10, took)
			}
		})
	}
}

// An advertisement of 20,000 reservations, nearly the largest that the market takes, is read.
func TestLargestAdvertisement(t *testing.T) {
	raced.Skip(t)
	f := servertest.Start(t, servertest.Options{})
	milan := f.Join("milan")
	size := api.Resources{"cpu": resource.MustParse("1500m"), "memory": resource.MustParse("1536Mi")}
	accounts := map[string]api.AccountUse{}
	for i := range 2_000 {
		a := api.AccountUse{Commitments: map[string]api.Resources{}, Used: size, Sold: map[string]api.SoldUnits{}}
		for j := range 10 {
			id := fmt.Sprintf("r-%016d", 10*i+j)
			if a.Commitments[id] = size; j == 0 {
				a.Sold[id] = api.SoldUnits{Offer: "compute", Plan: "small", Units: 1}
			}
		}
		accounts[fmt.Sprintf("cluster-%05d", i)] = a
	}
	m := api.Measurement{Sequence: api.Sequence{Incarnation: 1, Number: 1},
		Pools: map[string]api.Pool{"general": {Accounts: accounts}}}
	data, _ := json.Marshal(m)
	if err := milan.PutAdvertisement(context.Background(), "milan", m); err != nil {
		t.Errorf("%d bytes: %v", len(data), err)
	}
	t.Logf("%d bytes, estimate %d", len(data), decoded.Cost(data))
}
