package server

import (
	"container/heap"
	"container/list"
	"time"
)

// connGroups are connections by their owner: an address or a caller. The largest group is found in
// constant time.
type connGroups struct {
	byOwner map[string]*connGroup
	heap    groupHeap
	total   int
}

// connGroup lists the connections of one owner, the oldest first.
type connGroup struct {
	list.List
	owner string
	at    int // in the heap
}

func (c *connGroup) oldest() *limitedConn { return c.Front().Value.(*limitedConn) }
func (c *connGroup) newest() *limitedConn { return c.Back().Value.(*limitedConn) }

func (c *connGroups) add(owner string, n *limitedConn) {
	if c.byOwner == nil {
		c.byOwner = map[string]*connGroup{}
	}
	group := c.byOwner[owner]
	if n.since = time.Now(); group == nil {
		group = &connGroup{owner: owner}
		c.byOwner[owner], n.group, n.link = group, group, group.PushBack(n)
		heap.Push(&c.heap, group)
	} else {
		n.group, n.link = group, group.PushBack(n)
		heap.Fix(&c.heap, group.at)
	}
	c.total++
}

func (c *connGroups) remove(n *limitedConn) {
	group := n.group
	group.Remove(n.link)
	n.group, n.link = nil, nil
	if c.total--; group.Len() == 0 {
		heap.Remove(&c.heap, group.at)
		delete(c.byOwner, group.owner)
	} else {
		heap.Fix(&c.heap, group.at)
	}
}

// count returns the number of connections of an owner.
func (c *connGroups) count(owner string) int {
	if group := c.byOwner[owner]; group != nil {
		return group.Len()
	}
	return 0
}

// largest returns the largest group, of several the one with the oldest connection; nil if there is none.
func (c *connGroups) largest() *connGroup {
	if len(c.heap) == 0 {
		return nil
	}
	return c.heap[0]
}

// groupHeap implements heap.Interface, the largest first.
type groupHeap []*connGroup

func (h groupHeap) Len() int { return len(h) }

func (h groupHeap) Less(i, j int) bool {
	if a, b := h[i].Len(), h[j].Len(); a != b || a == 0 {
		return a > b
	}
	return h[i].oldest().since.Before(h[j].oldest().since)
}

func (h groupHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].at, h[j].at = i, j
}

func (h *groupHeap) Push(x any) {
	group := x.(*connGroup)
	group.at = len(*h)
	*h = append(*h, group)
}

func (h *groupHeap) Pop() any {
	last := len(*h) - 1
	group := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	return group
}
