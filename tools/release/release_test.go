package main

import (
	"archive/tar"
	"bytes"
	"cmp"
	"compress/gzip"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

// all says that the test is about all platforms; most runs are about that of this machine.
var all = os.Getenv("ALL_PLATFORMS") != ""

// TestMain lets the test run as the command, under another umask and in another time zone than the test.
func TestMain(m *testing.M) {
	if os.Getenv("AS_COMMAND") != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

// makeIn runs the command on a repository, under a umask and in a time zone, and returns what it prints.
func makeIn(t *testing.T, source, out, umask, zone string, args ...string) (string, error) {
	t.Helper()
	args = append([]string{"-source=" + source, "-out=" + out}, args...)
	args = append([]string{"-c", `umask ` + umask + `; exec "$0" "$@"`, os.Args[0]}, args...)
	cmd := exec.Command("sh", args...)
	cmd.Env = append(os.Environ(), "AS_COMMAND=1", "TZ="+zone)
	var said bytes.Buffer
	cmd.Stderr = &said
	printed, err := cmd.Output()
	if err != nil {
		err = fmt.Errorf("%w: %s", err, said.String())
	}
	return string(printed), err
}

// mustMake is makeIn for what succeeds.
func mustMake(t *testing.T, source, out, umask, zone string, args ...string) string {
	t.Helper()
	printed, err := makeIn(t, source, out, umask, zone, args...)
	if err != nil {
		t.Fatal(err)
	}
	return printed
}

// here are the flags for the platforms that this run is about.
func here(platforms ...string) []string {
	if all {
		return platforms
	}
	return append([]string{"-platforms=linux/" + runtime.GOARCH}, platforms...)
}

// commit copies the working tree into a repository of one commit, which is the same in each copy. A worktree, a
// shallow clone and changes without a commit do not matter so.
func commit(t *testing.T, dir string) string {
	t.Helper()
	git := func(in string, args ...string) string {
		cmd := exec.Command("git", append([]string{"-c", "user.name=Test", "-c", "user.email=test@example.org",
			"-c", "commit.gpgSign=false", "-c", "core.autocrlf=false"}, args...)...)
		cmd.Dir = in
		cmd.Env = append(os.Environ(), "GIT_AUTHOR_DATE=2026-01-02T03:04:05Z", "GIT_COMMITTER_DATE=2026-01-02T03:04:05Z")
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("git %s: %v", args[0], err)
		}
		return string(out)
	}
	const root = "../.."
	for _, path := range strings.Split(git(root, "ls-files", "-z", "--cached", "--others", "--exclude-standard"), "\x00") {
		content, err := os.ReadFile(filepath.Join(root, path))
		if path == "" || errors.Is(err, os.ErrNotExist) { // not yet removed from the index
			continue
		}
		to := filepath.Join(dir, path)
		if err := errors.Join(err, os.MkdirAll(filepath.Dir(to), 0o777), os.WriteFile(to, content, 0o666)); err != nil {
			t.Fatal(err)
		}
	}
	git(dir, "init", "--quiet")
	git(dir, "add", "--force", ".")
	git(dir, "commit", "--quiet", "--message=all")
	return strings.TrimSpace(git(dir, "rev-parse", "HEAD"))
}

// The same commit gives the same bytes in another folder, under another umask and in another time zone.
func TestTwoBuildsGiveOneDigest(t *testing.T) {
	one, other := filepath.Join(t.TempDir(), "one"), filepath.Join(t.TempDir(), "another folder")
	revision := commit(t, one)
	if again := commit(t, other); again != revision {
		t.Fatalf("the copies are commits %s and %s", revision, again)
	}
	first, second := t.TempDir(), t.TempDir()
	printed := mustMake(t, one, first, "022", "UTC", here("images")...)
	mustMake(t, other, second, "077", "Asia/Tokyo", here("images")...)
	made := sums(t, first)
	if again := sums(t, second); made != again {
		t.Errorf("the first build made\n%sthe second\n%s", made, again)
	}
	fields := strings.Fields(printed)
	version, digest, _ := strings.Cut(fields[len(fields)-1], "@")
	if want := "v0.0.0-20260102030405-" + revision[:12]; version != want {
		t.Errorf("version %q, want %q", version, want)
	}
	t.Run("OCI", func(t *testing.T) { checkOCI(t, first, version, digest, revision) })
	t.Run("Docker", func(t *testing.T) { checkDocker(t, first, version) })
	t.Run("SBOM", func(t *testing.T) { checkSBOM(t, first, version) })
	t.Run("registry", func(t *testing.T) { checkPush(t, other, digest) })
	t.Run("dirty", func(t *testing.T) { checkDirty(t, other) })
}

// checkOCI reads the archive as containerd does.
func checkOCI(t *testing.T, dir, version, digest, revision string) {
	unpacked := unpack(t, filepath.Join(dir, "bourse-"+version+"-oci.tar"))
	root, err := layout.ImageIndexFromPath(unpacked)
	if err != nil {
		t.Fatal(err)
	}
	manifest, err := root.IndexManifest()
	if err != nil || len(manifest.Manifests) != 1 {
		t.Fatalf("the archive holds %+v, %v", manifest, err)
	}
	only := manifest.Manifests[0]
	if only.Digest.String() != digest {
		t.Errorf("digest %s, but it printed %s", only.Digest, digest)
	}
	if name := only.Annotations["io.containerd.image.name"]; name != "localhost/bourse:"+version {
		t.Errorf("containerd calls it %q", name)
	}
	if ref := only.Annotations["org.opencontainers.image.ref.name"]; ref != version {
		t.Errorf("its ref is %q", ref)
	}
	index, err := root.ImageIndex(only.Digest)
	if err != nil {
		t.Fatal(err)
	}
	platforms, err := index.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, p := range platforms.Manifests {
		found = append(found, p.Platform.String())
		image, err := index.Image(p.Digest)
		if err != nil {
			t.Fatal(err)
		}
		checkImage(t, image, p.Platform.Architecture, version, revision)
	}
	want := []string{"linux/" + runtime.GOARCH}
	if all {
		want = []string{"linux/amd64", "linux/arm64"}
	}
	if !slices.Equal(found, want) {
		t.Errorf("platforms %q, want %q", found, want)
	}
}

func checkImage(t *testing.T, image v1.Image, arch, version, revision string) {
	config, err := image.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	if config.Config.User != "65532:65532" || !slices.Equal(config.Config.Entrypoint, []string{"/bourse"}) ||
		config.OS != "linux" || config.Architecture != arch {
		t.Errorf("image for %s: %+v", arch, config)
	}
	files := tree(t, image)
	if len(files) != 5 || files["bourse"].mode != 0o755 || files["etc/ssl/certs/ca-certificates.crt"].mode != 0o644 {
		t.Errorf("image for %s has files %v", arch, files)
	}
	if n := bytes.Count(files["etc/ssl/certs/ca-certificates.crt"].content, []byte("BEGIN CERTIFICATE")); n < 50 {
		t.Errorf("it has %d authorities", n)
	}
	if arch != runtime.GOARCH {
		return
	}
	program := filepath.Join(t.TempDir(), "bourse")
	if err := os.WriteFile(program, files["bourse"].content, 0o755); err != nil {
		t.Fatal(err)
	}
	said, err := exec.Command(program, "version").CombinedOutput()
	if err != nil || !strings.Contains(string(said), version) || !strings.Contains(string(said), "commit "+revision) {
		t.Errorf("bourse version: %s, %v", said, err)
	}
}

// tree returns the files of an image.
func tree(t *testing.T, image v1.Image) map[string]file {
	layers, err := image.Layers()
	if err != nil || len(layers) != 1 {
		t.Fatalf("%d layers, %v", len(layers), err)
	}
	content, err := layers[0].Uncompressed()
	if err != nil {
		t.Fatal(err)
	}
	defer content.Close()
	return readTar(t, content)
}

func readTar(t *testing.T, from io.Reader) map[string]file {
	files := map[string]file{}
	for r := tar.NewReader(from); ; {
		head, err := r.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		files[head.Name] = file{head.Name, head.Mode, content}
	}
}

func unpack(t *testing.T, archive string) string {
	f, err := os.Open(archive)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	dir := t.TempDir()
	for name, file := range readTar(t, f) {
		to := filepath.Join(dir, name)
		if strings.HasSuffix(name, "/") {
			err = os.MkdirAll(to, 0o755)
		} else {
			err = errors.Join(os.MkdirAll(filepath.Dir(to), 0o755), os.WriteFile(to, file.content, 0o644))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func checkDocker(t *testing.T, dir, version string) {
	tag, err := name.NewTag("localhost/bourse:" + version)
	if err != nil {
		t.Fatal(err)
	}
	archive := filepath.Join(dir, "bourse-"+version+"-docker-"+runtime.GOARCH+".tar")
	image, err := tarball.ImageFromPath(archive, &tag)
	if err != nil {
		t.Fatal(err)
	}
	config, err := image.ConfigFile()
	if err != nil || config.Config.User != "65532:65532" || config.Architecture != runtime.GOARCH {
		t.Errorf("%s has %+v, %v", archive, config, err)
	}
}

func checkSBOM(t *testing.T, dir, version string) {
	text, err := os.ReadFile(filepath.Join(dir, "bourse-"+version+"-linux-"+runtime.GOARCH+".cdx.json"))
	if err != nil {
		t.Fatal(err)
	}
	var bill struct {
		BOMFormat  string
		Components []component
	}
	if err := json.Unmarshal(text, &bill); err != nil {
		t.Fatal(err)
	}
	has := func(name string) bool {
		return slices.ContainsFunc(bill.Components, func(c component) bool {
			return c.Name == name && strings.HasPrefix(c.PURL, "pkg:golang/"+name+"@") && c.Version != ""
		})
	}
	if bill.BOMFormat != "CycloneDX" || !has("stdlib") || !has("github.com/liqotech/liqo") {
		t.Errorf("the bill of materials is %s", text)
	}
}

// A registry has the digest that was printed, and each platform is pulled by it.
func checkPush(t *testing.T, source, digest string) {
	server := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	defer server.Close()
	host := strings.TrimPrefix(server.URL, "http://")
	printed := mustMake(t, source, t.TempDir(), "022", "UTC", here("-registry="+host+"/team", "images")...)
	want := host + "/team/bourse@" + digest
	if lines := strings.Fields(printed); lines[len(lines)-1] != want {
		t.Fatalf("it printed %s, want %s at the end", printed, want)
	}
	ref, err := name.NewDigest(want)
	if err != nil {
		t.Fatal(err)
	}
	tags, err := remote.List(ref.Repository)
	if err != nil || len(tags) != 1 {
		t.Fatalf("it has the tags %q, %v", tags, err)
	}
	if tagged, err := remote.Head(ref.Repository.Tag(tags[0])); err != nil || tagged.Digest.String() != digest ||
		!strings.Contains(printed, "bourse-"+tags[0]+"-oci.tar\n") {
		t.Errorf("tag %s, which is not the version of %s, is %v, %v", tags[0], printed, tagged, err)
	}
	pulled := []string{runtime.GOARCH}
	if all {
		pulled = []string{"amd64", "arm64"}
	}
	for _, arch := range pulled {
		image, err := remote.Image(ref, remote.WithPlatform(v1.Platform{OS: "linux", Architecture: arch}))
		if err != nil {
			t.Fatal(err)
		}
		if config, err := image.ConfigFile(); err != nil || config.Architecture != arch || len(tree(t, image)) != 5 {
			t.Errorf("pulled for %s: %+v, %v", arch, config, err)
		}
	}
}

// Nobody could say later from what an image of uncommitted changes was made.
func checkDirty(t *testing.T, source string) {
	if err := os.WriteFile(filepath.Join(source, "left-over"), nil, 0o666); err != nil {
		t.Fatal(err)
	}
	args := []string{"-platforms=linux/" + runtime.GOARCH, "images"}
	if _, err := makeIn(t, source, t.TempDir(), "022", "UTC", args...); err == nil ||
		!strings.Contains(err.Error(), "+dirty: commit or remove what git status shows") {
		t.Errorf("with changes: %v", err)
	}
	printed := strings.Fields(mustMake(t, source, t.TempDir(), "022", "UTC", append([]string{"-dev"}, args...)...))
	version, digest, _ := strings.Cut(printed[len(printed)-1], "@")
	if want := "dev-" + strings.TrimPrefix(digest, "sha256:")[:12]; version != want {
		t.Errorf("with changes and DEV=1 it is %q, want %q", version, want)
	}
}

func TestOnlyACommitHasAVersion(t *testing.T) {
	for version, want := range map[string]string{
		"":                "go stamped no version",
		"(devel)":         "go stamped no version",
		"v0.1.0+dirty":    "version v0.1.0+dirty: commit or remove what git status shows",
		"v0.1.0":          "",
		"v0.0.0-20260102": "",
	} {
		if got := fmt.Sprint(checkVersion(version)); !strings.HasPrefix(got, cmp.Or(want, "<nil>")) {
			t.Errorf("%q: %s, want %s", version, got, want)
		}
	}
}

// Archives are the same bytes from two folders too, and checksums.txt is theirs.
func TestArchivesForLaptops(t *testing.T) {
	one, other := filepath.Join(t.TempDir(), "one"), filepath.Join(t.TempDir(), "another folder")
	revision := commit(t, one)
	commit(t, other)
	first, second := t.TempDir(), t.TempDir()
	mustMake(t, one, first, "022", "UTC", here("cli")...)
	mustMake(t, other, second, "077", "Asia/Tokyo", here("cli")...)
	if made, again := sums(t, first), sums(t, second); made != again {
		t.Errorf("the first build made\n%sthe second\n%s", made, again)
	}
	list, err := os.ReadFile(filepath.Join(first, "checksums.txt"))
	if err != nil {
		t.Fatal(err)
	}
	platforms := 1
	if all {
		platforms = 6
	}
	if n := bytes.Count(list, []byte("\n")); n != platforms || !strings.Contains(sums(t, first), string(list[:64])) {
		t.Errorf("%d checksums, want %d:\n%s", n, platforms, list)
	}
	name := fmt.Sprintf("bourse-v0.0.0-20260102030405-%s-linux-%s.tar.gz", revision[:12], runtime.GOARCH)
	content, err := os.ReadFile(filepath.Join(first, name))
	if err != nil {
		t.Fatal(err)
	}
	unzipped, err := gzip.NewReader(bytes.NewReader(content))
	if err != nil {
		t.Fatal(err)
	}
	if files := readTar(t, unzipped); len(files) != 2 || files["bourse"].mode != 0o755 || files["LICENSE"].content == nil {
		t.Errorf("%s has %d files", name, len(files))
	}
}

// sums are the checksums of all files in a folder, with their names.
func sums(t *testing.T, dir string) string {
	t.Helper()
	var all strings.Builder
	files, err := readFiles(dir)
	if err != nil || len(files) == 0 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	for _, f := range files {
		fmt.Fprintf(&all, "%x  %s\n", sha256.Sum256(f.content), f.name)
	}
	return all.String()
}
