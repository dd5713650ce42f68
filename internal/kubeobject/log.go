package kubeobject

import (
	"context"
	"log/slog"
)

// QuietLog returns a handler for the log lines of the Kubernetes libraries: what they call Info is
// Debug here, so that an agent's own lines stand out.
func QuietLog(h slog.Handler) slog.Handler { return quiet{h} }

type quiet struct{ slog.Handler }

func lower(level slog.Level) slog.Level {
	if level == slog.LevelInfo {
		return slog.LevelDebug
	}
	return level
}

func (q quiet) Enabled(ctx context.Context, level slog.Level) bool {
	return q.Handler.Enabled(ctx, lower(level))
}

func (q quiet) Handle(ctx context.Context, r slog.Record) error {
	r.Level = lower(r.Level)
	return q.Handler.Handle(ctx, r)
}

func (q quiet) WithAttrs(attrs []slog.Attr) slog.Handler { return quiet{q.Handler.WithAttrs(attrs)} }

func (q quiet) WithGroup(name string) slog.Handler { return quiet{q.Handler.WithGroup(name)} }
