package arch

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// Manifests name no registry that somebody else may own: what runs with an agent's or a broker's rights comes from the
// admin's own.
func TestManifestsNameNoForeignImage(t *testing.T) {
	images := regexp.MustCompile(`(?:image|newName): *([^\s,}]+)`)
	found := 0
	err := filepath.WalkDir("../../config", func(path string, entry os.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.HasSuffix(path, ".yaml") && !strings.HasSuffix(path, ".yml") {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for _, image := range images.FindAllSubmatch(text, -1) {
			found++
			if name := string(image[1]); name != "bourse" && !strings.HasPrefix(name, "set-your-registry.invalid/") {
				t.Errorf("%s names image %s", path, name)
			}
		}
		return nil
	})
	if err != nil || found < 5 {
		t.Errorf("%d images: %v", found, err)
	}
}

// Neither do docs and code: what they name is copied. Liqo's images are named because Liqo runs them, and the pause
// image because it does nothing.
func TestNobodyElsesImageIsNamed(t *testing.T) {
	image := regexp.MustCompile(`\b(?:ghcr\.io|quay\.io|docker\.io|registry\.k8s\.io|[a-z.]*gcr\.io)/[^\s"'` + "`" + `]+`)
	allowed := []string{"ghcr.io/liqotech/", "registry.k8s.io/pause:"}
	list := exec.Command("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--", ":!*.sum", ":!test/arch")
	list.Dir = "../.."
	names, err := list.Output()
	if err != nil {
		t.Fatal(err)
	}
	for name := range strings.SplitSeq(strings.TrimSuffix(string(names), "\x00"), "\x00") {
		text, err := os.ReadFile(filepath.Join("../..", name))
		if errors.Is(err, fs.ErrNotExist) { // removed, and not yet from the index
			continue
		} else if err != nil {
			t.Fatal(err)
		}
		for _, found := range image.FindAllString(string(text), -1) {
			if !slices.ContainsFunc(allowed, func(prefix string) bool { return strings.HasPrefix(found, prefix) }) {
				t.Errorf("%s names image %s: an image is an admin's own, such as REGISTRY/bourse:TAG", name, found)
			}
		}
	}
}
