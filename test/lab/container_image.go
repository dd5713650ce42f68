package lab

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
)

// containerImages returns an archive in the layout of OCI. Each image runs its program, and all have
// the same files, as one layer: programs by their path, and links to them.
func containerImages(images map[string]string, files map[string][]byte, links map[string]string) ([]byte, error) {
	layer, err := archive(files, links)
	if err != nil {
		return nil, err
	}
	blobs := map[string][]byte{"oci-layout": []byte(`{"imageLayoutVersion": "1.0.0"}`)}
	type object = map[string]any
	blob := func(kind string, content []byte) object {
		digest := fmt.Sprintf("%x", sha256.Sum256(content))
		blobs["blobs/sha256/"+digest] = content
		return object{"mediaType": "application/vnd.oci.image." + kind, "digest": "sha256:" + digest, "size": len(content)}
	}
	document := func(kind string, content object) (object, error) {
		text, err := json.Marshal(content)
		return blob(kind, text), err
	}
	only := blob("layer.v1.tar", layer)
	var manifests []object
	for _, name := range slices.Sorted(maps.Keys(images)) {
		config, err := document("config.v1+json", object{
			"architecture": "amd64", "os": "linux",
			"config": object{"Entrypoint": []string{images[name]}, "Env": []string{"PATH=/bin"}},
			"rootfs": object{"type": "layers", "diff_ids": []any{only["digest"]}},
		})
		if err != nil {
			return nil, err
		}
		manifest, err := document("manifest.v1+json", object{
			"schemaVersion": 2, "config": config, "layers": []object{only},
		})
		if err != nil {
			return nil, err
		}
		manifest["annotations"] = object{"io.containerd.image.name": name}
		manifests = append(manifests, manifest)
	}
	if blobs["index.json"], err = json.Marshal(object{"schemaVersion": 2, "manifests": manifests}); err != nil {
		return nil, err
	}
	return archive(blobs, nil)
}

// archive is a tar of files and links.
func archive(files map[string][]byte, links map[string]string) ([]byte, error) {
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for _, name := range slices.Sorted(maps.Keys(files)) {
		head := &tar.Header{Name: name, Mode: 0o755, Size: int64(len(files[name]))}
		if err := w.WriteHeader(head); err != nil {
			return nil, err
		}
		if _, err := w.Write(files[name]); err != nil {
			return nil, err
		}
	}
	for _, name := range slices.Sorted(maps.Keys(links)) {
		head := &tar.Header{Typeflag: tar.TypeSymlink, Name: name, Linkname: links[name]}
		if err := w.WriteHeader(head); err != nil {
			return nil, err
		}
	}
	return out.Bytes(), w.Close()
}
