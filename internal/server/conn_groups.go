package server

import (
	"cmp"
	"container/list"
	"time"

	"github.com/google/btree"
)

// connGroups are connections by their owner: an address or a caller. The largest group is found in
// logarithmic time.
type connGroups struct {
	byOwner map[string]*connGroup
	bySize  *btree.BTreeG[*connGroup] // the largest first
	total   int
}

// connGroup lists the connections of one owner, the oldest first.
type connGroup struct {
	list.List
	owner string
	in    *connGroups
}

func newConnGroups() *connGroups {
	return &connGroups{byOwner: map[string]*connGroup{}, bySize: btree.NewG(8, isLarger)}
}

// isLarger reports whether a group has more connections than another. Of two groups with as many,
// the one with the oldest connection is the larger.
func isLarger(a, b *connGroup) bool {
	return cmp.Or(cmp.Compare(b.Len(), a.Len()), a.oldest().since.Compare(b.oldest().since),
		cmp.Compare(a.owner, b.owner)) < 0
}

func (c *connGroup) oldest() *limitedConn { return c.Front().Value.(*limitedConn) }
func (c *connGroup) newest() *limitedConn { return c.Back().Value.(*limitedConn) }

func (c *connGroups) add(owner string, n *limitedConn) {
	group := c.byOwner[owner]
	if group == nil {
		group = &connGroup{owner: owner, in: c}
		c.byOwner[owner] = group
	} else {
		c.bySize.Delete(group)
	}
	n.since = time.Now()
	n.group, n.link = group, group.PushBack(n)
	c.bySize.ReplaceOrInsert(group)
	c.total++
}

// leaveGroup removes a connection from its group, if it is in one.
func (n *limitedConn) leaveGroup() {
	group := n.group
	if group == nil {
		return
	}
	c := group.in
	c.bySize.Delete(group)
	group.Remove(n.link)
	n.group, n.link = nil, nil
	if group.Len() == 0 {
		delete(c.byOwner, group.owner)
	} else {
		c.bySize.ReplaceOrInsert(group)
	}
	c.total--
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
	group, _ := c.bySize.Min()
	return group
}

// all returns the connections of all groups.
func (c *connGroups) all() (all []*limitedConn) {
	for _, group := range c.byOwner {
		for link := group.Front(); link != nil; link = link.Next() {
			all = append(all, link.Value.(*limitedConn))
		}
	}
	return all
}
