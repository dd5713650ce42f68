package cli

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/broker"
	"github.com/bourse-dev/bourse/internal/explain"
	"github.com/bourse-dev/bourse/internal/identity/atomicfile"
	"github.com/bourse-dev/bourse/internal/journal"
	"github.com/bourse-dev/bourse/internal/market"
)

// storeFlags are the flags for where a broker stores its market.
type storeFlags struct{ dir, store string }

func (s *storeFlags) addStore(f *pflag.FlagSet) {
	f.StringVar(&s.store, "store", "",
		"where to store the market: sqlite (a file in --dir), or postgres://USER@HOST/DATABASE (also BOURSE_STORE, which "+
			"ps does not show; default: sqlite)")
}

func (s *storeFlags) add(f *pflag.FlagSet) {
	f.StringVar(&s.dir, "dir", "bourse-broker", "the broker's folder")
	s.addStore(f)
}

func (s *storeFlags) open() (broker.Store, error) {
	return broker.OpenStore(s.dir, cmp.Or(s.store, os.Getenv("BOURSE_STORE")))
}

func (sh *shell) backupCommand() *cobra.Command {
	var place storeFlags
	force := false
	cmd := &cobra.Command{
		Use: "backup FILE", Short: "Back up a broker; it may be running", Args: cobra.ExactArgs(1),
		Long: "Backup writes everything that a broker must not lose to FILE (- is standard output). That is the whole\n" +
			"market at one point in time, and the CA that its members trust. FILE contains the CA's private key:\n" +
			"anyone who reads it can impersonate any member. Only its owner can read the file. The command asks the\n" +
			"running broker through its socket. With --dir or --store it reads the stored market instead; with\n" +
			"PostgreSQL the broker may be running meanwhile.",
		Example: "  bourse broker backup /backup/bourse-$(date +%F)\n" +
			"  bourse broker backup - | age -r KEY > bourse.age\n" +
			"  bourse broker backup --dir /var/lib/bourse bourse.backup",
		RunE: func(cmd *cobra.Command, args []string) error {
			var data []byte
			_, err := os.Lstat(args[0])
			if err == nil && !force && args[0] != "-" {
				return api.Errorf(api.CodeConflict, "%s exists", args[0]).Fix("name another file, or replace it: --force")
			}
			if cmd.Flags().Changed("dir") || cmd.Flags().Changed("store") {
				data, err = place.backup(cmd.Context())
			} else {
				data, err = sh.askBackup(cmd.Context())
			}
			if err != nil {
				return err
			}
			backup, state, err := broker.DecodeBackup(data) // a backup that cannot be restored is worth nothing
			if err != nil {
				return api.Errorf(api.CodeInternal, "the backup is not usable: %s", err).
					Fix("check the store: bourse broker verify")
			}
			if args[0] == "-" {
				_, err = sh.out.Write(data)
			} else {
				err = atomicfile.Write(args[0], data)
			}
			if err != nil {
				return err
			}
			fmt.Fprintf(sh.progress, "backed up: %s of %s, at %v\n", explain.Count(reservationsIn(state), "reservation"),
				explain.Count(len(state.Members()), "member"), backup.Head)
			if len(backup.CA) > 0 {
				fmt.Fprintln(sh.progress, "The backup contains the CA's private key: encrypt it.")
			} else {
				fmt.Fprintln(sh.progress,
					"The backup contains no CA, because the broker's folder has none. Back up its --tls-cert-dir, or give its --dir.")
			}
			return nil
		},
	}
	place.add(cmd.Flags())
	cmd.Flags().BoolVar(&force, "force", false, "replace FILE if it exists")
	return cmd
}

func (s *storeFlags) backup(ctx context.Context) ([]byte, error) {
	store, err := s.open()
	if err != nil {
		return nil, err
	}
	defer store.Close()
	backup, err := broker.BackupStore(ctx, s.dir, store)
	if err != nil {
		return nil, err
	}
	return backup.Encode()
}

func (sh *shell) askBackup(ctx context.Context) ([]byte, error) {
	if strings.HasPrefix(sh.server, "https://") || strings.HasPrefix(sh.server, "http://") {
		return nil, api.Invalid("--server", "a backup contains the CA's private key, which must not cross a network").
			Fix("run the command on the broker's machine")
	}
	c, err := sh.operator()
	if err != nil {
		return nil, err
	}
	var data bytes.Buffer
	err = c.Backup(ctx, &data)
	return data.Bytes(), err
}

func (sh *shell) restoreCommand() *cobra.Command {
	var place storeFlags
	cmd := &cobra.Command{
		Use: "restore FILE", Short: "Restore a backup as a new broker", Args: cobra.ExactArgs(1),
		Long: "Restore writes the market of a backup into an empty store of either kind, and the CA into --dir. The\n" +
			"backup lacks what was acknowledged after it, so the market begins a new lineage. Agents notice the new\n" +
			"lineage and report everything they hold. The broker counts it, and no reservation ends. Stop the\n" +
			"original broker for good before you restore.\n\n" +
			"Members that you suspended, revoked or removed after the backup are members again. The command lists the\n" +
			"members; suspend, revoke or remove those again. Join tokens that nobody had used at the time of the\n" +
			"backup are void.",
		Example: "  bourse broker restore /backup/bourse-2026-11-21 --dir /var/lib/bourse\n" +
			"  bourse broker restore bourse.backup --dir /var/lib/bourse --store postgres://bourse@db.example.org/bourse",
		RunE: func(cmd *cobra.Command, args []string) error {
			backup, state, err := readBackup(args[0])
			if err != nil {
				return err
			}
			store, err := place.open()
			if err != nil {
				return err
			}
			defer store.Close()
			resumed, err := backup.Restore(cmd.Context(), place.dir, store)
			if err != nil {
				return err
			}
			fmt.Fprintf(sh.out, "restored: %d reservations of %d members, as of %s; the journal continues at %v\n",
				reservationsIn(state), len(resumed.Members), resumed.Since.UTC().Format(sinceForm), resumed.Head)
			fmt.Fprintf(sh.progress, "To start the broker: bourse broker --dir %s, and its other flags\n", place.dir)
			return sh.showResumed(resumed)
		},
	}
	place.add(cmd.Flags())
	return cmd
}

const sinceForm = "2006-01-02 15:04:05 MST"

// showResumed lists what an operator must repeat after history was lost.
func (sh *shell) showResumed(r broker.Resumed) error {
	since := r.Since.UTC().Format(sinceForm)
	if r.Void > 0 {
		fmt.Fprintf(sh.out,
			"join tokens that nobody had used by then are void (%d): create new ones (bourse broker token create)\n", r.Void)
	}
	if len(r.Members) == 0 {
		return nil
	}
	rows := [][]string{{"CLUSTER", "STATE AT " + since}}
	for _, m := range r.Members {
		rows = append(rows, []string{m.Cluster, string(m.State)})
	}
	if err := sh.table(rows); err != nil {
		return err
	}
	_, err := fmt.Fprintln(sh.out,
		"suspend, revoke or remove again the members that you suspended, revoked or removed after that: bourse "+
			"broker revoke CLUSTER")
	return err
}

func reservationsIn(state *market.State) (n int) {
	for _, of := range state.Count() {
		n += of
	}
	return n
}

func readBackup(file string) (*broker.Backup, *market.State, error) {
	data, err := os.ReadFile(file)
	if file == "-" {
		data, err = io.ReadAll(os.Stdin)
	}
	if err != nil {
		return nil, nil, api.Invalid("FILE", "%s", err).Fix("name a file that bourse broker backup wrote")
	}
	backup, state, err := broker.DecodeBackup(data)
	if err != nil {
		return nil, nil, api.Invalid("FILE", "%s: %s", file, err).Fix("name another file that bourse broker backup wrote")
	}
	return backup, state, nil
}

// verified is the result of verify.
type verified struct {
	Lineage      string       `json:"lineage"`
	Revision     uint64       `json:"revision"`
	Hash         journal.Hash `json:"hash"`
	Members      int          `json:"members"`
	Tokens       int          `json:"tokens"`
	Reservations int          `json:"reservations"`
}

func (sh *shell) verifyCommand() *cobra.Command {
	var place storeFlags
	cmd := &cobra.Command{
		Use: "verify [FILE]", Short: "Verify a broker's journal, or a backup", Args: cobra.MaximumNArgs(1),
		Long: "Verify reads the whole journal or the backup FILE, recomputes its hash chain, and rebuilds the market.\n" +
			"It checks that the sums match the reservations. It changes nothing. You can verify a file in --dir while\n" +
			"its broker is stopped, and PostgreSQL at any time. The exit code is not 0 if something is damaged.",
		Example: "  bourse broker verify --dir /var/lib/bourse\n" +
			"  bourse broker verify --store postgres://bourse@db.example.org/bourse\n" +
			"  bourse broker verify /backup/bourse-2026-11-21",
		RunE: func(cmd *cobra.Command, args []string) error {
			state, head, err := place.read(cmd.Context(), args)
			if err != nil {
				return err
			}
			if wrong := state.Imbalance(); wrong > 0 {
				return api.Errorf(api.CodeInternal, "the sums of %d pools do not match their reservations", wrong).
					Fix("report it; restore a backup that verifies")
			}
			v := verified{head.Lineage, head.Revision, head.Hash, len(state.Members()),
				len(state.Tokens()), reservationsIn(state)}
			if sh.encodes() {
				return sh.encode(v)
			}
			_, err = fmt.Fprintf(sh.out,
				"lineage       %s\nrevision      %d\nhash          %v\nmembers       %d\ntokens        %d\nreservations  %d\n",
				v.Lineage, v.Revision, v.Hash, v.Members, v.Tokens, v.Reservations)
			return err
		},
	}
	place.add(cmd.Flags())
	return cmd
}

func (s *storeFlags) read(ctx context.Context, args []string) (*market.State, journal.Head, error) {
	if len(args) > 0 {
		backup, state, err := readBackup(args[0])
		if err != nil {
			return nil, journal.Head{}, err
		}
		return state, backup.Head, nil
	}
	store, err := s.open()
	if err != nil {
		return nil, journal.Head{}, err
	}
	defer store.Close()
	return broker.ReadStore(ctx, store)
}

func (sh *shell) journalCommand() *cobra.Command {
	var place storeFlags
	accept := &cobra.Command{
		Use: "accept-loss", Short: "Accept an older or damaged journal, as a new lineage", Args: cobra.NoArgs,
		Long: "A broker refuses a journal that is not the one it last wrote: something that it acknowledged may be\n" +
			"missing. Use accept-loss if there is no better copy. The journal then begins a new lineage, so that\n" +
			"agents notice. Stop the broker first. As after a restore, unused join tokens are void, and the command\n" +
			"lists the members. Revoke again those that you revoked after the last entry of this journal. If the\n" +
			"command is interrupted, run it again before you start the broker.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			store, err := place.open()
			if err != nil {
				return err
			}
			defer store.Close()
			resumed, err := broker.AcceptLoss(cmd.Context(), store)
			if err != nil {
				return err
			}
			fmt.Fprintln(sh.out, "the journal continues at", resumed.Head)
			return sh.showResumed(resumed)
		},
	}
	place.add(accept.Flags())
	cmd := &cobra.Command{Use: "journal", Short: "Repair the broker's journal"}
	cmd.AddCommand(accept)
	return cmd
}
