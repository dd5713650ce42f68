package postgres

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/bourse-dev/bourse/internal/journal/tables"
)

const (
	// beat is how often a leader shows that it is alive, and how often others try to lead.
	beat = 500 * time.Millisecond
	// silence is the time without a beat after which the server ends the lead. It also ends that of a
	// stopped process, whose kernel still answers.
	silence = 10 * time.Second
	// answerTime is how long a leader waits for the server's answer.
	answerTime = 8 * time.Second
	// endTime is how long a command waits for the server to notice that the leader has ended.
	endTime = 5 * time.Second
)

// leadership is a session that holds, or wants, the lock.
type leadership struct {
	mu   sync.Mutex
	conn *session
}

// tryLock takes the lock of the journal if it is free. Its key is a hash of the schema's name. Each database
// has its own locks.
const tryLock = "SELECT pg_try_advisory_lock(hashtextextended('bourse journal in ' || current_schema(), 0))"

// Lead waits until this process leads among all processes on the database. It calls waiting once if
// another one leads now. hold keeps the lead until it is lost, and returns nil only if its ctx ends. Close
// gives up the lead. Errors: ctx's; the connection's, after which Lead may be called again.
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
		if _, err := j.lead.conn.ExecContext(ctx,
			fmt.Sprintf("SET idle_session_timeout = %d", silence.Milliseconds())); err != nil {
			return false, j.describe(err)
		}
	}
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	err = j.lead.conn.QueryRowContext(ctx, tryLock).Scan(&leads)
	return leads, j.describe(err)
}

// hold shows the server that this process is alive, until the lead is lost.
func (j *Journal) hold(ctx context.Context) error {
	ticker := time.NewTicker(beat)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
		if err := j.lead.renewLead(); err != nil && ctx.Err() == nil {
			return fmt.Errorf("the lead of %s is lost, and another broker may have it: %w", j.Where, err)
		}
	}
}

func (l *leadership) renewLead() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.conn == nil {
		return nil // closed
	}
	ctx, cancel := context.WithTimeout(context.Background(), answerTime)
	defer cancel()
	err := l.conn.PingContext(ctx)
	if err != nil {
		l.drop()
	}
	return err
}

// takeLead takes the lead. It tries for a while, because the server may not have noticed yet that the leader
// has ended. Errors: *journal.RefusedError if another process leads.
func (j *Journal) takeLead(ctx context.Context) error {
	for until := time.Now().Add(endTime); ; {
		leads, err := j.tryLead(ctx)
		if err == nil && !leads && time.Now().After(until) {
			err = tables.Refused(j.Where, tables.RemedyInUse, "a broker leads it")
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
	l.drop()
}

func (l *leadership) drop() {
	_ = l.conn.Close()
	l.conn = nil
}
