package lab

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// ErrNoPackages says that the Debian packages of a machine cannot be had here.
var ErrNoPackages = errors.New("no Debian packages for the machine")

// machinePackages are what a machine needs: QEMU, a kernel, and the tools inside.
var machinePackages = []string{
	"qemu-system-x86", "linux-image-cloud-amd64", "busybox-static", "iproute2", "nftables", "wireguard-tools", "conntrack",
}

// FetchMachine downloads the packages of a machine and all that they depend on, about 80 MB, and
// unpacks them into a cached folder, which it returns. Nothing is installed, so it needs no root.
// It uses the system's own apt sources. Errors: ErrNoPackages.
func FetchMachine(ctx context.Context, progress io.Writer) (string, error) {
	return fetchTree(ctx, progress, "80 MB", machinePackages)
}

// fetchTree does so with any packages.
func fetchTree(ctx context.Context, progress io.Writer, size string, packages []string) (string, error) {
	cache, err := cacheDir()
	if err != nil {
		return "", err
	}
	list := sha256.Sum256([]byte(strings.Join(packages, " ")))
	tree := filepath.Join(cache, "machine", fmt.Sprintf("tree-%x", list[:6]))
	if _, err := os.Stat(tree); err == nil {
		return tree, nil
	}
	dir := filepath.Dir(tree)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	unlock, err := lockFolder(ctx, dir, func() {
		fmt.Fprintln(progress, "another process is fetching the same packages: waiting for it")
	})
	if err != nil {
		return "", err
	}
	defer unlock()
	if _, err := os.Stat(tree); err == nil {
		return tree, nil
	}
	fmt.Fprintf(progress, "fetching Debian packages for the machine, %s, once\n", size)
	if err := fetch(ctx, dir, packages); err != nil {
		return "", fmt.Errorf("%w: %w", ErrNoPackages, err)
	}
	return tree, os.Rename(filepath.Join(dir, "partial"), tree)
}

// fetch fills the folder partial in dir. An empty list of installed packages makes apt download every
// dependency, so that the tree does not depend on the system.
func fetch(ctx context.Context, dir string, packages []string) error {
	state := filepath.Join(dir, "apt")
	for _, sub := range []string{"lists/partial", "cache/archives/partial"} {
		if err := os.MkdirAll(filepath.Join(state, sub), 0o755); err != nil {
			return err
		}
	}
	if err := os.WriteFile(filepath.Join(state, "status"), nil, 0o600); err != nil {
		return err
	}
	apt := func(args ...string) error {
		options := []string{"-qq", "-y", "-o", "APT::Sandbox::User=",
			"-o", "Debug::NoLocking=1", "-o", "APT::Architecture=amd64"}
		for key, at := range map[string]string{
			"Dir::State": "", "Dir::State::lists": "lists", "Dir::State::status": "status", "Dir::Cache": "cache",
		} {
			options = append(options, "-o", key+"="+filepath.Join(state, at))
		}
		return command(ctx, "apt-get", append(options, args...)...)
	}
	if err := apt("update"); err != nil {
		return err
	}
	install := []string{"install", "--no-install-recommends", "--download-only"}
	if err := apt(append(install, packages...)...); err != nil {
		return err
	}
	archives, err := filepath.Glob(filepath.Join(state, "cache", "archives", "*.deb"))
	if err != nil {
		return err
	}
	partial := filepath.Join(dir, "partial")
	if err := os.RemoveAll(partial); err != nil {
		return err
	}
	for _, p := range slices.Sorted(slices.Values(archives)) {
		if err := command(ctx, "dpkg-deb", "--extract", p, partial); err != nil {
			return err
		}
	}
	return os.RemoveAll(state)
}

// command runs a program, and returns what it says if it fails.
func command(ctx context.Context, name string, args ...string) error {
	out, err := exec.CommandContext(ctx, name, args...).CombinedOutput()
	if err != nil {
		err = fmt.Errorf("%s: %w: %s", name, err, out)
	}
	return err
}
