package main

import (
	"bytes"
	"context"
	"encoding/pem"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"golang.org/x/crypto/x509roots/fallback/bundle"
)

// nobody is the user and the group of the program: neither root nor anyone whom a node knows.
const nobody = "65532:65532"

// makeImages makes the archives, pushes if there is a registry, and prints what it made.
func makeImages(ctx context.Context, s settings) error {
	index, images, version, err := buildIndex(ctx, s)
	if err != nil {
		return err
	}
	digest, err := index.Digest()
	if err != nil {
		return err
	}
	if s.dev {
		version = "dev-" + digest.Hex[:12]
	}
	repository := "localhost/bourse" // no registry: for archives only
	if s.registry != "" {
		repository = s.registry + "/bourse"
	}
	tag, err := name.NewTag(repository + ":" + version)
	if err != nil {
		return err
	}
	archive := filepath.Join(s.out, "bourse-"+version+"-oci.tar")
	if err := writeOCI(archive, index, tag); err != nil {
		return err
	}
	fmt.Println(archive)
	for i, image := range images {
		archive := filepath.Join(s.out, fmt.Sprintf("bourse-%s-docker-%s.tar", version, s.platforms[i].arch))
		if err := tarball.WriteToFile(archive, tag, image); err != nil {
			return err
		}
		fmt.Println(archive)
	}
	if s.registry == "" {
		fmt.Printf("%s@%s\n", version, digest)
		return nil
	}
	err = remote.WriteIndex(tag, index, remote.WithContext(ctx), remote.WithAuthFromKeychain(authn.DefaultKeychain))
	if err != nil {
		return fmt.Errorf("push to %s: %w", tag, err)
	}
	fmt.Printf("%s@%s\n", tag.Repository, digest)
	return nil
}

// buildIndex returns the image of all platforms, that of each platform, and the version of the program.
func buildIndex(ctx context.Context, s settings) (v1.ImageIndex, []v1.Image, string, error) {
	var images []v1.Image
	version := ""
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	for _, p := range s.platforms {
		built, err := build(ctx, s, p)
		if err != nil {
			return nil, nil, "", err
		}
		image, err := built.image()
		if err != nil {
			return nil, nil, "", err
		}
		if err := writeSBOM(s.out, built); err != nil {
			return nil, nil, "", err
		}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{Add: image,
			Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: p.os, Architecture: p.arch}}})
		images, version = append(images, image), built.version
	}
	return index, images, version, nil
}

// image has the program and the public certificate authorities, and nothing else.
func (p program) image() (v1.Image, error) {
	content, err := p.files()
	if err != nil {
		return nil, err
	}
	open := func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(content)), nil }
	layer, err := tarball.LayerFromOpener(open, tarball.WithMediaType(types.OCILayer), tarball.WithCompressedCaching)
	if err != nil {
		return nil, err
	}
	image := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	if image, err = mutate.AppendLayers(image, layer); err != nil {
		return nil, err
	}
	config, err := image.ConfigFile()
	if err != nil {
		return nil, err
	}
	config = config.DeepCopy()
	config.OS, config.Architecture, config.Created = p.os, p.arch, v1.Time{Time: p.commit}
	config.Config = v1.Config{Entrypoint: []string{"/bourse"}, User: nobody, Labels: map[string]string{
		"org.opencontainers.image.title":    "bourse",
		"org.opencontainers.image.version":  p.version,
		"org.opencontainers.image.revision": p.setting("vcs.revision"),
		"org.opencontainers.image.licenses": "Apache-2.0",
	}}
	return mutate.ConfigFile(image, config)
}

// files are those of the image, as an archive. The authorities are a file as in other images, not a part of the
// program: a folder of an admin's own authorities then adds to them (SSL_CERT_DIR), and laptops keep those they have.
func (p program) files() ([]byte, error) {
	var out, authorities bytes.Buffer
	for root := range bundle.Roots() {
		if root.Constraint != nil {
			continue // one that is trusted up to a date: a file cannot say so
		}
		if err := pem.Encode(&authorities, &pem.Block{Type: "CERTIFICATE", Bytes: root.Certificate}); err != nil {
			return nil, err
		}
	}
	err := writeTar(&out, []file{
		{"bourse", 0o755, p.binary},
		{"etc/", 0o755, nil},
		{"etc/ssl/", 0o755, nil},
		{"etc/ssl/certs/", 0o755, nil},
		{"etc/ssl/certs/ca-certificates.crt", 0o644, authorities.Bytes()},
	}, p.commit)
	return out.Bytes(), err
}

// writeOCI writes an archive of OCI. Containerd takes the image's name from the annotation, and imports nothing
// without one.
func writeOCI(to string, index v1.ImageIndex, tag name.Tag) error {
	dir, err := os.MkdirTemp("", "bourse-release-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	oci, err := layout.Write(dir, empty.Index)
	if err != nil {
		return err
	}
	if err := oci.AppendIndex(index, layout.WithAnnotations(map[string]string{
		"io.containerd.image.name":          tag.String(),
		"org.opencontainers.image.ref.name": tag.TagStr(),
	})); err != nil {
		return err
	}
	files, err := readFiles(dir)
	if err != nil {
		return err
	}
	var out bytes.Buffer
	if err := writeTar(&out, files, time.Time{}); err != nil {
		return err
	}
	return os.WriteFile(to, out.Bytes(), 0o644)
}

// readFiles reads a folder, sorted by name.
func readFiles(dir string) (files []file, err error) {
	root := os.DirFS(dir)
	err = fs.WalkDir(root, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || name == "." {
			return err
		}
		if entry.IsDir() {
			files = append(files, file{name + "/", 0o755, nil})
			return nil
		}
		content, err := fs.ReadFile(root, name)
		files = append(files, file{name, 0o644, content})
		return err
	})
	return files, err
}
