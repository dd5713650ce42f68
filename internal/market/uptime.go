package market

import (
	"slices"
	"time"

	"github.com/bourse-dev/bourse/api"
)

// Uptime is the share of the last 30 days in which a member's lease was alive. A broker measures it
// by a clock of its own, which stops while the broker cannot hear members: while it is down, after
// a pause or a jump of the clock, and for one lease after that. So time that it did not see does
// not count. Each Leases event has the clock.

const (
	// uptimeDays is how many days of the clock count, with the present one.
	uptimeDays = 30
	day        = Time(24 * time.Hour / time.Millisecond)
	// uptimeFrom is how long a member is observed before its uptime is known.
	uptimeFrom = day
	// signOfLife is how much of the clock a broker loses at most in a crash.
	signOfLife = Time(15 * time.Minute / time.Millisecond)
	// UnknownUptime is the uptime before that. It satisfies no bound.
	UnknownUptime = -1
)

// Leases names members whose leases ended or began.
type Leases struct {
	// Awake is the broker's clock, in milliseconds.
	Awake Time `json:"awake"`
	// Lost names the members whose lease ended, Regained those whose lease began.
	Lost     []string `json:"lost,omitempty"`
	Regained []string `json:"regained,omitempty"`
}

// awake is the broker's own clock.
type awake struct {
	// total is its time when it was last journalled or stopped, newest its time at the last look.
	total, newest Time
	// since is when it began to go on from total. It stands still while asleep.
	since  Time
	asleep bool
	told   Time // the newest in the journal
}

func (a *awake) at(now Time) Time {
	if a.asleep {
		return a.total
	}
	return a.total + max(0, now-a.since)
}

// Wake starts the clock.
func (s *State) Wake(now Time) {
	if s.awake.asleep {
		s.awake.asleep, s.awake.since = false, now
	}
}

// Sleep stops the clock at a time. A loaded market sleeps.
func (s *State) Sleep(since Time) {
	s.awake.total = s.awake.at(since)
	s.awake.asleep = true
}

// presence is the history of a member's lease, in times of the broker's clock. It is immutable.
type presence struct {
	Cluster string `json:"cluster"`
	// Since is when its first lease began.
	Since Time `json:"since"`
	// Lost says that its lease ended, At says when.
	Lost bool `json:"lost,omitempty"`
	At   Time `json:"at,omitempty"`
	// Days are the days with lost leases before that, oldest first, at most uptimeDays.
	Days []lostDay `json:"days,omitempty"`
}

// lostDay is for how many milliseconds of a day a lease was lost. Days count from the clock's begin.
type lostDay struct {
	Day int32 `json:"day"`
	For int32 `json:"for"`
}

// Notice compares all leases with their presences. All changes make one event.
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

// alive reports whether the cluster's lease is alive.
func (p *provider) alive(now Time) bool { return p.observed != 0 && now < p.observed.plus(Lease) }

func (s *State) noticed(l *Leases, now Time) {
	later := l.Awake/signOfLife > s.awake.told/signOfLife
	s.awake.total, s.awake.told, s.awake.since = l.Awake, l.Awake, now
	s.awake.newest = max(s.awake.newest, l.Awake)
	for _, cluster := range l.Lost {
		p := s.provider(cluster)
		if p.presence != nil && !p.presence.Lost {
			p.presence = p.presence.recordLost(l.Awake)
		}
		s.touch(p)
	}
	for _, cluster := range l.Regained {
		p := s.provider(cluster)
		p.presence = p.presence.recordRegained(cluster, l.Awake)
		s.touch(p)
	}
	if !later { // uptimes of silent members need not be newer
		return
	}
	for _, p := range s.slots {
		if p.presence != nil && p.presence.Lost { // other listings change with their advertisements
			s.touch(p)
		}
	}
}

// forgetPresence drops the presence and the record of a former member.
func (s *State) forgetPresence(m *Member) {
	if m.State == api.MemberRemoved || m.State == api.MemberRevoked {
		s.provider(m.Cluster).presence, s.provider(m.Cluster).record = nil, nil
	}
}

func (p *presence) recordLost(at Time) *presence {
	next := *p
	next.Lost, next.At = true, at
	return &next
}

func (p *presence) recordRegained(cluster string, at Time) *presence {
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

// firstDay returns the begin of the first day that counts.
func firstDay(at Time) Time { return (at/day - uptimeDays + 1) * day }

// uptime returns the uptime in parts per million, rounded down.
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
