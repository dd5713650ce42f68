package server

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/test/raced"
)

// A page has no more bytes than a client reads, however large its items are, and one that goes on
// from it gets the rest.
func TestPagesOfLargeItems(t *testing.T) {
	raced.Skip(t)
	const size = 100 << 10
	var items []api.Envelope[string]
	for i := range 100 {
		items = append(items, api.Envelope[string]{ID: string(rune('A'+i/10)) + string(rune('0'+i%10)),
			Payload: strings.Repeat("x", size)})
	}
	got, pages := 0, 0
	for next := ""; ; pages++ {
		var sent bytes.Buffer
		if err := cut(items, Page{Limit: 70, Continue: next}).send(&sent); err != nil {
			t.Fatal(err)
		}
		var list api.List[string]
		if err := json.Unmarshal(sent.Bytes(), &list); err != nil || sent.Len() > maxPage+2*size || len(list.Items) == 0 {
			t.Fatalf("a page of %d items and %d bytes, %v", len(list.Items), sent.Len(), err)
		}
		for _, item := range list.Items {
			if item.ID != items[got].ID {
				t.Fatalf("item %d is %s", got, item.ID)
			}
			got++
		}
		if next = list.Continue; next == "" {
			break
		}
	}
	if got != len(items) || pages < 2 {
		t.Errorf("%d items on %d pages", got, pages+1)
	}
}
