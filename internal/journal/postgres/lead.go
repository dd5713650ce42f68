package postgres

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
)

const (
	// beat is how often a leader shows that it is alive, and others ask whether they lead now.
	beat = 500 * time.Millisecond
	// silence is after how long without a beat the server takes the lead away: also from a process that is
	// stopped, whose kernel still answers for it.
	silence = 10 * time.Second
	// deafness is how long a leader waits for the server's answer.
	deafness = 8 * time.Second
	// farewell is how long a command waits for the lead of a process that has just ended.
	farewell = 5 * time.Second
)

// leadership is a session that holds, or wants, the lock.
type leadership struct {
	mu   sync.Mutex
	conn *pgx.Conn
}

// tryLock takes the lock of the journal if it is free. Its key is made of the schema's name; other databases
// have other locks.
const tryLock = "SELECT pg_try_advisory_lock(hashtextextended('bourse journal in ' || current_schema(), 0))"

// Lead waits until this process leads, of all that are started on the database. waiting is called
// once, if another leads now. The lead ends with Close, or when hold says so: hold waits for that,
// and returns nil only when its ctx ends. Errors: ctx's; of the connection, after which it may be
// called again.
func (j *Journal) Lead(ctx context.Context, waiting func()) (hold func(context.Context) error, err error) {
	leads, err := j.tryLead(ctx)
	if err == nil && !leads {
		waiting()
	}
	for err == nil && !leads {
		select {
		case <-ctx.Done():
			err = ctx.Err()
		case <-time.After(beat):
			leads, err = j.tryLead(ctx)
		}
	}
	if err != nil {
		j.lead.end()
		return nil, err
	}
	return j.hold, nil
}

func (j *Journal) tryLead(ctx context.Context) (leads bool, err error) {
	j.lead.mu.Lock()
	defer j.lead.mu.Unlock()
	if j.lead.conn == nil {
		if j.lead.conn, err = j.connect(ctx); err != nil {
			return false, err
		}
		if _, err := j.lead.conn.Exec(ctx, fmt.Sprintf("SET idle_session_timeout = %d", silence.Milliseconds())); err != nil {
			return false, j.describe(err)
		}
	}
	ctx, cancel := context.WithTimeout(ctx, deafness)
	defer cancel()
	err = j.lead.conn.QueryRow(ctx, tryLock).Scan(&leads)
	return leads, j.describe(err)
}

// hold shows the server that this process is alive.
func (j *Journal) hold(ctx context.Context) error {
	ticker := time.NewTicker(beat)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
		if err := j.lead.beat(); err != nil && ctx.Err() == nil {
			return fmt.Errorf("the lead of %s is lost, another broker may have it: %w", j.Where(), err)
		}
	}
}

func (l *leadership) beat() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.conn == nil {
		return nil // closed
	}
	ctx, cancel := context.WithTimeout(context.Background(), deafness)
	defer cancel()
	err := l.conn.Ping(ctx)
	if err != nil {
		hangUp(l.conn)
		l.conn = nil
	}
	return err
}

// alone takes the lead, or says that another has it. The server may not have noticed yet that a
// process has ended, so it asks for a while.
func (j *Journal) alone(ctx context.Context) error {
	for until := time.Now().Add(farewell); ; {
		leads, err := j.tryLead(ctx)
		if err == nil && !leads && time.Now().After(until) {
			err = j.refused("a broker leads it", remedyInUse)
		}
		if err != nil || leads {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(beat / 5):
		}
	}
}

func (l *leadership) end() {
	l.mu.Lock()
	defer l.mu.Unlock()
	hangUp(l.conn)
	l.conn = nil
}
