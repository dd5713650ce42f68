package broker

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/compat/resourceagent"
	"github.com/bourse-dev/bourse/internal/exchange"
	"github.com/bourse-dev/bourse/internal/identity/atomicfile"
	"github.com/bourse-dev/bourse/internal/journal"
	"github.com/bourse-dev/bourse/internal/market"
	"github.com/bourse-dev/bourse/internal/payload"
	"github.com/bourse-dev/bourse/internal/server"
)

// Backup holds everything that a broker must not lose, at one point of its market's history. Its
// content does not depend on the store. It is a secret: the CA's key lets its holder pose as any member.
type Backup struct {
	// Taken is the time of the backup.
	Taken time.Time `json:"taken"`
	// Head is the position of the journal; State is the whole market at that position.
	Head  journal.Head `json:"head"`
	State []byte       `json:"state"`
	// CA holds the files of the built-in CA by name, unless the broker has provided certificates, and the
	// secret of its legacy members.
	CA map[string][]byte `json:"ca"`

	market *market.State // set in a decoded backup
}

// caFiles identify the broker to its members. The operator's certificate is made again.
var caFiles = []string{"ca.key", "ca.crt", resourceagent.SecretFile}

// A backup begins with its format and the SHA-256 of everything after that line.
const backupLine = "bourse backup 1 %x\n"

// Encode returns the content of a backup file.
func (b *Backup) Encode() ([]byte, error) {
	body, err := json.Marshal(b)
	if err != nil {
		return nil, err
	}
	return append(fmt.Appendf(nil, backupLine, sha256.Sum256(body)), body...), nil
}

// DecodeBackup reads and verifies a backup, including its market.
func DecodeBackup(data []byte) (b *Backup, state *market.State, err error) {
	line, body, _ := bytes.Cut(data, []byte("\n"))
	var version int
	if _, err := fmt.Sscanf(string(line), "bourse backup %d", &version); err != nil {
		return nil, nil, errors.New("it is not a backup of a broker")
	}
	if version != 1 {
		return nil, nil, fmt.Errorf("its format is %d; this version reads format 1", version)
	}
	if string(line)+"\n" != fmt.Sprintf(backupLine, sha256.Sum256(body)) {
		return nil, nil, errors.New("it is damaged or not whole: its checksum does not match")
	}
	b = new(Backup)
	if err := payload.Unmarshal(body, b); err != nil {
		return nil, nil, err
	}
	state, _, err = exchange.Rebuild(context.Background(), func(_ context.Context,
		onSnapshot func(journal.Head, []byte) error, _ func(journal.Record) error) (journal.Head, error) {
		return b.Head, onSnapshot(b.Head, b.State)
	})
	b.market = state
	return b, state, err
}

// takeBackup backs up a running market.
func takeBackup(ctx context.Context, o Options, x *exchange.Exchange) (*Backup, error) {
	head, state, err := x.Snapshot(ctx)
	if err != nil {
		return nil, err
	}
	return withCA(o.Dir, &Backup{Taken: time.Now().UTC(), Head: head, State: state})
}

// BackupStore backs up a store, with or without a running broker. dir is the broker's folder.
func BackupStore(ctx context.Context, dir string, store Store) (*Backup, error) {
	state, head, err := ReadStore(ctx, store)
	if err != nil {
		return nil, err
	}
	var encoded bytes.Buffer
	if err := state.Snapshot()(&encoded); err != nil {
		return nil, err
	}
	return withCA(dir, &Backup{Taken: time.Now().UTC(), Head: head, State: encoded.Bytes()})
}

// ReadStore verifies a store and folds it into its market. Errors: NotFound without a journal; those of
// the store.
func ReadStore(ctx context.Context, store Store) (state *market.State, head journal.Head, err error) {
	state, head, err = exchange.Rebuild(ctx, store.Read)
	return state, head, missing(err)
}

func withCA(dir string, b *Backup) (*Backup, error) {
	b.CA = map[string][]byte{}
	for _, name := range caFiles {
		data, err := os.ReadFile(filepath.Join(dir, "ca", name))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		b.CA[name] = data
	}
	return b, nil
}

// Restore writes a decoded backup into an empty store, as a new lineage, and its CA into dir. Agents
// detect the lineage and report their reservations. Unused join tokens are dropped: see [Resumed].
// Errors: Conflict if something exists already; it is left as it is.
func (b *Backup) Restore(ctx context.Context, dir string, store Store) (Resumed, error) {
	for name, data := range b.CA {
		if there, err := os.ReadFile(filepath.Join(dir, "ca", name)); err == nil && !bytes.Equal(there, data) {
			return Resumed{}, api.Errorf(api.CodeConflict, "%s belongs to another federation",
				filepath.Join(dir, "ca", name)).At("--dir").Fix("name an empty folder")
		} else if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return Resumed{}, err
		}
	}
	if _, head, err := ReadStore(ctx, store); err == nil && head.Revision > 0 {
		return Resumed{}, notEmpty(fmt.Errorf("it is at %v", head))
	} else if err != nil && api.CodeOf(err) != api.CodeNotFound {
		return Resumed{}, err
	}
	head, write, void := b.Head.Renew(), journal.State(b.State), unspentTokens(b.market)
	if len(void) > 0 { // in the snapshot itself, so that no broker can start between the two
		event, encoded, err := forgetTokens(b.market, void)
		if err != nil {
			return Resumed{}, err
		}
		b.market.Apply(event)
		batch, err := journal.Encode(nil, [][]byte{encoded})
		if err != nil {
			return Resumed{}, err
		}
		head = head.Next(1, batch)
		write = b.market.Snapshot()
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return Resumed{}, err
	}
	for _, name := range caFiles { // the key first: without it the certificate is rejected
		if data, ok := b.CA[name]; ok {
			if err := atomicfile.Write(filepath.Join(dir, "ca", name), data); err != nil {
				return Resumed{}, err
			}
		}
	}
	err := store.Begin(ctx, head, write)
	if errors.Is(err, journal.ErrConflict) {
		err = notEmpty(err)
	}
	resumed := Resumed{Head: head, Since: b.Taken, Members: b.market.Members(), Void: len(void)}
	return resumed, errors.Join(err, store.Close())
}

func notEmpty(found error) error {
	return api.Errorf(api.CodeConflict, "the store is not empty: %s", found).At("--store").
		Fix("name an empty one: another --dir, or another database or schema; what is there is not overwritten")
}

// serveBackup serves backups on the operators' socket only: the CA's key must not cross a network.
func serveBackup(o Options, x *exchange.Exchange, operators http.Handler) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/", operators)
	mux.HandleFunc("GET "+api.Prefix+"/backup", func(w http.ResponseWriter, r *http.Request) {
		backup, err := takeBackup(r.Context(), o, x)
		var data []byte
		if err == nil {
			data, err = backup.Encode()
		}
		if err != nil {
			server.Refuse(w, r, api.Errorf(api.CodeUnavailable, "no backup: %s", err))
			return
		}
		w.Header().Set("Content-Type", "application/octet-stream")
		_, _ = w.Write(data)
	})
	return mux
}
