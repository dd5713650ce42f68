package market

import (
	"slices"
	"time"

	"github.com/bourse-dev/bourse/api"
)

// Uptime is the share of the last 30 days in which a member's lease was alive. A broker reckons it on a clock of its own, which only
// goes while the broker is awake: not while it is down, while its process stands still or the wall jumps, nor for
// one lease after that, because silence then says nothing about anyone. So what it did not see is not in the reckoning at all.
// The clock is in each of its events, and in one now and then when there is nothing else to say.

const (
	// uptimeDays of being awake, the present one included, are what uptime is reckoned over.
	uptimeDays = 30
	day        = Time(24 * time.Hour / time.Millisecond)
	// uptimeFrom is for how long a member is observed before its uptime is known.
	uptimeFrom = day
	// signOfLife is how much of what it was awake a broker that crashes forgets, at most.
	signOfLife = Time(15 * time.Minute / time.Millisecond)
	// UnknownUptime is the uptime of who was not observed for long enough. It satisfies no bound.
	UnknownUptime = -1
)

// Leases is what a broker noticed of the leases of its members.
type Leases struct {
	// Awake is how many milliseconds the broker was awake in all.
	Awake Time `json:"awake"`
	// Lost names the members whose lease ended, Regained those that were heard of again, or for the first time.
	Lost     []string `json:"lost,omitempty"`
	Regained []string `json:"regained,omitempty"`
}

// awake is the broker's own clock.
type awake struct {
	// total is what it showed when it was journalled last, or stopped; newest what it showed when somebody last looked.
	total, newest Time
	// since is when it began to go on from total; it does not while asleep.
	since  Time
	asleep bool
	told   Time // in the journal
}

func (a *awake) at(now Time) Time {
	if a.asleep {
		return a.total
	}
	return a.total + max(0, now-a.since)
}

// Wake says that from now on silence says something about members.
func (s *State) Wake(now Time) {
	if s.awake.asleep {
		s.awake.asleep, s.awake.since = false, now
	}
}

// Sleep says that since then it did not. A market that was loaded is asleep.
func (s *State) Sleep(since Time) {
	s.awake.total = s.awake.at(since)
	s.awake.asleep = true
}

// presence is what is remembered of when a member was heard of, in times of the broker's clock. Records are immutable.
type presence struct {
	Cluster string `json:"cluster"`
	// Since is when it was first heard of.
	Since Time `json:"since"`
	// Lost says that its lease ended, At when.
	Lost bool `json:"lost,omitempty"`
	At   Time `json:"at,omitempty"`
	// Days are the days on which it was lost before, oldest first: at most as many as uptime is reckoned over.
	Days []lostDay `json:"days,omitempty"`
}

// lostDay is for how many milliseconds of a day, counted from the clock's beginning, a lease was lost.
type lostDay struct {
	Day int32 `json:"day"`
	For int32 `json:"for"`
}

// Notice compares the leases with what is known of them: what is new becomes one event, however many members it names.
type Notice struct{}

func (Notice) decide(s *State, now Time) (Outcome, error) {
	if s.Self != "" || s.awake.asleep {
		return Outcome{}, nil
	}
	l, anyone := Leases{Awake: s.awake.at(now)}, false
	for _, p := range s.slots {
		alive, known := p.alive(now), p.presence != nil && !p.presence.Lost
		anyone = anyone || p.presence != nil
		switch {
		case known && !alive:
			l.Lost = append(l.Lost, p.cluster)
		case alive && !known && s.active(p.cluster) == nil:
			l.Regained = append(l.Regained, p.cluster)
		}
	}
	if len(l.Lost)+len(l.Regained) == 0 && (!anyone || l.Awake-s.awake.told < signOfLife) {
		return Outcome{}, nil
	}
	slices.Sort(l.Lost)
	slices.Sort(l.Regained)
	return Outcome{Events: []Event{{Time: now, Leases: &l}}}, nil
}

// alive says whether the cluster's lease is.
func (p *provider) alive(now Time) bool { return p.observed != 0 && now < p.observed.plus(Lease) }

func (s *State) noticed(l *Leases, now Time) {
	later := l.Awake/signOfLife > s.awake.told/signOfLife
	s.awake.total, s.awake.told, s.awake.since = l.Awake, l.Awake, now
	s.awake.newest = max(s.awake.newest, l.Awake)
	for _, cluster := range l.Lost {
		p := s.provider(cluster)
		if p.presence != nil && !p.presence.Lost {
			p.presence = p.presence.lose(l.Awake)
		}
		s.touch(p)
	}
	for _, cluster := range l.Regained {
		p := s.provider(cluster)
		p.presence = p.presence.regain(cluster, l.Awake)
		s.touch(p)
	}
	if !later { // what is said of who is away need not be newer
		return
	}
	for _, p := range s.slots {
		if p.presence != nil && p.presence.Lost { // of the others, news comes by itself
			s.touch(p)
		}
	}
}

// forgetPresence forgets what was seen of who is no member any more.
func (s *State) forgetPresence(m *Member) {
	if m.State == api.MemberRemoved || m.State == api.MemberRevoked {
		s.provider(m.Cluster).presence, s.provider(m.Cluster).record = nil, nil
	}
}

func (p *presence) lose(at Time) *presence {
	next := *p
	next.Lost, next.At = true, at
	return &next
}

func (p *presence) regain(cluster string, at Time) *presence {
	if p == nil {
		return &presence{Cluster: cluster, Since: at}
	}
	next := *p
	next.Lost, next.At = false, 0
	next.Days = slices.DeleteFunc(slices.Clone(p.Days), func(d lostDay) bool { return Time(d.Day)*day < firstDay(at) })
	if !p.Lost {
		return &next
	}
	for from := max(p.At, firstDay(at)); from < at; {
		today := from / day
		until := min(at, (today+1)*day)
		if n := len(next.Days); n > 0 && next.Days[n-1].Day == int32(today) {
			next.Days[n-1].For += int32(until - from)
		} else {
			next.Days = append(next.Days, lostDay{int32(today), int32(until - from)})
		}
		from = until
	}
	return &next
}

// firstDay is when the first of the days began over which uptime is reckoned.
func firstDay(at Time) Time { return (at/day - uptimeDays + 1) * day }

// uptime is in parts per million, rounded down.
func (p *presence) uptime(at Time) int64 {
	if p == nil || at-p.Since < uptimeFrom {
		return UnknownUptime
	}
	from := max(p.Since, firstDay(at))
	alive := at - from
	for _, d := range p.Days {
		if Time(d.Day)*day >= firstDay(at) {
			alive -= Time(d.For)
		}
	}
	if p.Lost {
		alive -= at - max(p.At, from)
	}
	return int64(alive) * 1_000_000 / int64(at-from)
}
