package lab

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"
	"testing"
)

// An archive of images has an index that names them, and each blob has its digest as name.
func TestContainerImages(t *testing.T) {
	all, err := containerImages(map[string]string{"localhost/a:v1": "/bin/a", "localhost/b:v1": "/bin/b"},
		map[string][]byte{"bin/a": []byte("program")}, map[string]string{"bin/b": "a"})
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{}
	for r := tar.NewReader(bytes.NewReader(all)); ; {
		head, err := r.Next()
		if err == io.EOF {
			break
		}
		content, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		files[head.Name] = string(content)
	}
	if len(files) != 7 || files["oci-layout"] == "" { // two configurations, two manifests and a layer besides
		t.Errorf("it has %d files", len(files))
	}
	for _, name := range []string{"localhost/a:v1", "localhost/b:v1"} {
		if !strings.Contains(files["index.json"], `"io.containerd.image.name":"`+name+`"`) {
			t.Errorf("the index does not name %s: %s", name, files["index.json"])
		}
	}
	for name, content := range files {
		if digest, is := strings.CutPrefix(name, "blobs/sha256/"); is &&
			digest != fmt.Sprintf("%x", sha256.Sum256([]byte(content))) {
			t.Errorf("%s has another digest", name)
		}
	}
}

// The kubelet is of the same version as the API server.
func TestOneKubernetes(t *testing.T) {
	var versions []string
	for _, m := range []module{kubernetesModule, kubeletModule} {
		text, err := os.ReadFile("../../tools/" + m.name + "/go.mod")
		if err != nil {
			t.Fatal(err)
		}
		versions = append(versions, string(regexp.MustCompile(`k8s.io/kubernetes v\S+`).Find(text)))
	}
	if versions[0] == "" || versions[0] != versions[1] {
		t.Errorf("the versions are %q", versions)
	}
}
