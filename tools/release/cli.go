package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
)

// makeArchives makes an archive of the program for each platform, and checksums.txt as sha256sum writes and reads it.
func makeArchives(ctx context.Context, s settings) error {
	license, err := os.ReadFile(filepath.Join(s.source, "LICENSE"))
	if err != nil {
		return err
	}
	var sums bytes.Buffer
	for _, p := range s.platforms {
		built, err := build(ctx, s, p)
		if err != nil {
			return err
		}
		executable, ending, pack := "bourse", ".tar.gz", packTarGz
		if p.os == "windows" {
			executable, ending, pack = "bourse.exe", ".zip", packZip
		}
		content, err := pack([]file{{executable, 0o755, built.binary}, {"LICENSE", 0o644, license}}, built.commit)
		if err != nil {
			return err
		}
		name := built.fileName() + ending
		fmt.Fprintf(&sums, "%x  %s\n", sha256.Sum256(content), name)
		if err := os.WriteFile(filepath.Join(s.out, name), content, 0o644); err != nil {
			return err
		}
		if err := writeSBOM(s.out, built); err != nil {
			return err
		}
		fmt.Println(filepath.Join(s.out, name))
	}
	return os.WriteFile(filepath.Join(s.out, "checksums.txt"), sums.Bytes(), 0o644)
}
