package strace

import (
	"slices"
	"strings"
	"testing"
)

func TestRead(t *testing.T) {
	got, err := Read(strings.NewReader(`7 read(13<TCP:[127.0.0.1:7443->127.0.0.1:50123]>, ""..., 4096) = 187
7 read(13<TCP:[127.0.0.1:7443->127.0.0.1:50123]>, 0x3a0c19d13d61, 1) = -1 EAGAIN (Resource temporarily unavailable)
7 pwrite64(8</d/market.db-wal>, ""..., 24, 32) = 24
7 fsync(8</d/market.db-wal> <unfinished ...>
9 --- SIGURG {si_signo=SIGURG, si_code=SI_TKILL, si_pid=5425, si_uid=0} ---
9 write(13<TCP:[127.0.0.1:7443->127.0.0.1:50123]>, ""..., 295 <unfinished ...>
7 <... fsync resumed>)                  = 0
9 <... write resumed>)                  = 295
9 read(3</x>,  <unfinished ...>
7 ???( <unfinished ...>
7 exit_group(0) = ?
7 +++ exited with 0 +++
`))
	if err != nil {
		t.Fatal(err)
	}
	const connection, wal = "TCP:[127.0.0.1:7443->127.0.0.1:50123]", "/d/market.db-wal"
	want := []Call{
		{"read", connection, 187, 1, 1}, {"read", connection, -1, 2, 2}, {"pwrite64", wal, 24, 3, 3},
		{"SIGURG", "", 0, 5, 5}, {"fsync", wal, 0, 4, 7}, {"write", connection, 295, 6, 8},
	}
	if !slices.Equal(got, want) {
		t.Errorf("got  %v\nwant %v", got, want)
	}
	for _, bad := range []string{"what is this", "7 <... fsync resumed>) = 0"} {
		if _, err := Read(strings.NewReader(bad)); err == nil {
			t.Errorf("%q is understood", bad)
		}
	}
}
