package federation

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// Source is the folder of Bourse's repository, found from the working folder upwards.
func Source() (string, error) {
	start, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for dir := start; ; dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "cmd", "bourse", "main.go")); err == nil {
			return dir, nil
		}
		if dir == filepath.Dir(dir) {
			return "", fmt.Errorf("no cmd/bourse in %s or above: run it inside Bourse's repository", start)
		}
	}
}

// Build builds the binary in a folder as `make build` does, so that what that compiled is used, and
// returns its path.
func Build(ctx context.Context, dir string) (string, error) {
	source, err := Source()
	if err != nil {
		return "", err
	}
	return build(ctx, source, dir)
}

// BuildFormer builds the binary of a commit in a folder. It returns its path, and that of the commit's files.
func BuildFormer(ctx context.Context, commit, dir string) (path, source string, err error) {
	repository, err := Source()
	if err != nil {
		return "", "", err
	}
	source = filepath.Join(dir, "source")
	if err := os.Mkdir(source, 0o755); err != nil {
		return "", "", err
	}
	archive := filepath.Join(dir, "source.tar")
	for _, args := range [][]string{
		{"git", "-C", repository, "archive", "-o", archive, commit},
		{"tar", "-x", "-f", archive, "-C", source},
	} {
		if out, err := exec.CommandContext(ctx, args[0], args[1:]...).CombinedOutput(); err != nil {
			return "", "", fmt.Errorf("files of commit %s (a shallow clone lacks it: git fetch --unshallow): %w\n%s", commit, err, out)
		}
	}
	path, err = build(ctx, source, dir)
	return path, source, err
}

func build(ctx context.Context, source, dir string) (string, error) {
	path := filepath.Join(dir, "bourse")
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-o", path, "./cmd/bourse")
	cmd.Dir = source
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build bourse: %w\n%s", err, out)
	}
	return path, nil
}
