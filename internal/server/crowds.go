package server

import (
	"container/heap"
	"container/list"
	"time"
)

// crowds are connections by their owner: an address or a caller. The crowd that has most is found at once, however many there are.
type crowds struct {
	by   map[string]*crowd
	heap crowdHeap
	all  int
}

// crowd are the connections of one owner, the oldest in front.
type crowd struct {
	list.List
	owner string
	at    int // in the heap
}

func (c *crowd) oldest() *guest { return c.Front().Value.(*guest) }
func (c *crowd) newest() *guest { return c.Back().Value.(*guest) }

func (c *crowds) add(owner string, n *guest) {
	if c.by == nil {
		c.by = map[string]*crowd{}
	}
	them := c.by[owner]
	if n.since = time.Now(); them == nil {
		them = &crowd{owner: owner}
		c.by[owner], n.crowd, n.link = them, them, them.PushBack(n)
		heap.Push(&c.heap, them)
	} else {
		n.crowd, n.link = them, them.PushBack(n)
		heap.Fix(&c.heap, them.at)
	}
	c.all++
}

func (c *crowds) remove(n *guest) {
	them := n.crowd
	them.Remove(n.link)
	n.crowd, n.link = nil, nil
	if c.all--; them.Len() == 0 {
		heap.Remove(&c.heap, them.at)
		delete(c.by, them.owner)
	} else {
		heap.Fix(&c.heap, them.at)
	}
}

// of is how many an owner has.
func (c *crowds) of(owner string) int {
	if them := c.by[owner]; them != nil {
		return them.Len()
	}
	return 0
}

// largest is the crowd that has most, of several the one whose oldest is oldest; nil: there is none.
func (c *crowds) largest() *crowd {
	if len(c.heap) == 0 {
		return nil
	}
	return c.heap[0]
}

// crowdHeap implements heap.Interface, the largest first.
type crowdHeap []*crowd

func (h crowdHeap) Len() int { return len(h) }

func (h crowdHeap) Less(i, j int) bool {
	if a, b := h[i].Len(), h[j].Len(); a != b || a == 0 {
		return a > b
	}
	return h[i].oldest().since.Before(h[j].oldest().since)
}

func (h crowdHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].at, h[j].at = i, j
}

func (h *crowdHeap) Push(x any) {
	them := x.(*crowd)
	them.at = len(*h)
	*h = append(*h, them)
}

func (h *crowdHeap) Pop() any {
	last := len(*h) - 1
	them := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	return them
}
