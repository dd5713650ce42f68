package ui

import (
	"cmp"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"reflect"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/ui/pages"
)

// mostKubeconfig is the largest file of a kubeconfig that is read again, in bytes.
const mostKubeconfig = 1 << 20

// execExtension is the extension of a cluster that credential plugins read. Programs write notes into the others.
const execExtension = "client.authentication.k8s.io/exec"

// Kubeconfig notices that a context of the kubeconfig gets another meaning while the pages use its first one. A nil
// Kubeconfig notices nothing.
type Kubeconfig struct {
	files   []string
	context string
	restart api.Command
	start   meaning

	looking sync.Mutex // a folder in the network may not answer: one look at a time
	sum     [sha256.Size]byte
	at      time.Time // when the files with this sum were seen first
	settled bool      // sum was seen twice: nobody is writing the files
	last    meaning

	mu     sync.Mutex
	banner []pages.Banner
}

// meaning is what a context says. Two files may say the same in other words.
type meaning struct {
	parts [3]any
	files [3]string // the file of each part
	// broken says why a new start could not use the kubeconfig, and file names the one to mend.
	broken, file string
}

// partNames name the parts of a meaning.
var partNames = [3]string{"default namespace", "cluster", "user"}

// NewKubeconfig reads the files of a kubeconfig as a start of the pages does: the first file that has a name decides. restart is the command that starts them again. It returns nil if the context cannot be read again, such as from
// a pipe.
func NewKubeconfig(files []string, context string, restart api.Command) *Kubeconfig {
	k := &Kubeconfig{files: files, context: context, restart: restart, settled: true}
	texts := k.read()
	k.sum, k.start = sumOf(texts), k.meaningOf(texts)
	if k.last = k.start; k.start.broken != "" {
		return nil
	}
	return k
}

// WatchKubeconfig has the pages say when the kubeconfig changes. Call it before Serve.
func (s *Server) WatchKubeconfig(k *Kubeconfig) { s.ui.kubeconfig = k }

// banners says that the kubeconfig has changed.
func (k *Kubeconfig) banners() []pages.Banner {
	if k == nil {
		return nil
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.banner
}

// look reads the files again, and calls changed if the pages are to say something else. What was just written counts once
// the next look finds the same.
func (k *Kubeconfig) look(now time.Time, changed func()) {
	if k == nil || !k.looking.TryLock() {
		return
	}
	defer k.looking.Unlock()
	texts := k.read()
	switch sum := sumOf(texts); {
	case sum != k.sum:
		k.sum, k.at, k.settled = sum, now, false
		return
	case k.settled:
		return
	}
	k.settled = true
	m := k.meaningOf(texts)
	if m.broken == k.last.broken && reflect.DeepEqual(m.parts, k.last.parts) {
		return
	}
	k.last = m
	banner := k.bannerOf(m)
	k.mu.Lock()
	k.banner = banner
	k.mu.Unlock()
	changed()
}

// bannerOf compares a meaning with that at the start. The name of the file is last: a page cuts long texts.
func (k *Kubeconfig) bannerOf(m meaning) []pages.Banner {
	at := k.at.UTC().Format("15:04:05") + " UTC"
	if m.broken != "" {
		return []pages.Banner{{Tone: pages.Warn, Fix: k.restart.String(), Text: "The kubeconfig " + m.broken + " since " + at +
			". These pages use what it said at their start. Mend it before you start bourse ui again. File: " + m.file}}
	}
	for i := len(m.parts) - 1; i >= 0; i-- { // the user matters most
		if !reflect.DeepEqual(m.parts[i], k.start.parts[i]) {
			return []pages.Banner{{Tone: pages.Warn, Fix: k.restart.String(), Text: "The kubeconfig changed at " + at +
				": this context has another " + partNames[i] + ". These pages use what it said at their start. A new start of " +
				"bourse ui uses the change. File: " + m.files[i]}}
		}
	}
	return nil
}

// fileText is a file as it was read. Without an error it exists.
type fileText struct {
	name string
	text []byte
	err  error
}

func (k *Kubeconfig) read() (out []fileText) {
	for _, name := range k.files {
		text, err := readFile(name, mostKubeconfig)
		out = append(out, fileText{name, text, err})
	}
	return out
}

// readFile reads a file of at most this many bytes, but no pipe: that could wait for ever.
func readFile(name string, most int) ([]byte, error) {
	switch info, err := os.Stat(name); {
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular():
		return nil, errors.New("is not a file")
	}
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, int64(most)+1))
	if len(text) > most {
		return nil, fmt.Errorf("is larger than %d KiB", most>>10)
	}
	return text, err
}

func sumOf(texts []fileText) (sum [sha256.Size]byte) {
	h := sha256.New()
	for _, f := range texts {
		fmt.Fprintf(h, "%q %v %d\n%s", f.name, f.err, len(f.text), f.text)
	}
	return [sha256.Size]byte(h.Sum(nil))
}

// meaningOf returns what the context says in files. Its user and cluster may be in other files than itself.
func (k *Kubeconfig) meaningOf(texts []fileText) (m meaning) {
	all := clientcmdapi.NewConfig()
	missing := map[string]bool{}
	for _, f := range slices.Backward(texts) {
		if missing[f.name] = errors.Is(f.err, fs.ErrNotExist); missing[f.name] {
			continue
		}
		config, err := parse(f)
		if err != nil {
			return meaning{broken: err.Error(), file: f.name}
		}
		maps.Copy(all.Contexts, config.Contexts)
		maps.Copy(all.Clusters, config.Clusters)
		maps.Copy(all.AuthInfos, config.AuthInfos)
	}
	context := cmp.Or(all.Contexts[k.context], &clientcmdapi.Context{})
	cluster := all.Clusters[context.Cluster]
	if cluster == nil {
		for _, file := range k.start.files {
			if missing[file] {
				return meaning{broken: "is gone", file: file}
			}
		}
		return meaning{broken: "has no such context", file: k.start.files[0]}
	}
	user := cmp.Or(all.AuthInfos[context.AuthInfo], &clientcmdapi.AuthInfo{LocationOfOrigin: context.LocationOfOrigin})
	m.files = [3]string{context.LocationOfOrigin, cluster.LocationOfOrigin, user.LocationOfOrigin}
	cluster.LocationOfOrigin, user.LocationOfOrigin, user.Extensions = "", "", nil
	cluster.Extensions = map[string]runtime.Object{execExtension: cluster.Extensions[execExtension]}
	m.parts = [3]any{cmp.Or(context.Namespace, "default"), cluster, user}
	return m
}

// parse reads a file as a kubeconfig, whose relative paths start at its folder. Its errors quote nothing of it.
func parse(f fileText) (*clientcmdapi.Config, error) {
	if f.err != nil {
		if e, ok := errors.AsType[*fs.PathError](f.err); ok {
			return nil, fmt.Errorf("cannot be read (%w)", e.Err)
		}
		return nil, f.err
	}
	config, err := clientcmd.Load(f.text)
	if err != nil {
		return nil, errors.New("cannot be parsed")
	}
	for _, c := range config.Contexts {
		c.LocationOfOrigin = f.name
	}
	for _, c := range config.Clusters {
		c.LocationOfOrigin = f.name
	}
	for _, user := range config.AuthInfos {
		user.LocationOfOrigin = f.name
	}
	if err := clientcmd.ResolveLocalPaths(config); err != nil {
		return nil, errors.New("has a path that cannot be resolved")
	}
	return config, nil
}
