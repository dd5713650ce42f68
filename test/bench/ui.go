package main

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/coder/websocket"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kube "sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/client"
	"github.com/bourse-dev/bourse/internal/sim"
	simulated "github.com/bourse-dev/bourse/internal/sim/federation"
	uipages "github.com/bourse-dev/bourse/internal/ui/pages"
	"github.com/bourse-dev/bourse/test/e2e/federation"
)

// webUI measures `bourse ui`, a process of its own, over a federation of simulated clusters: what a first page loads, how
// long a change takes to an open page, what ten open pages cost with 5,000 requests and 10,000 clusters of which 20 change
// each second, and one render of a page of 200 rows.
func webUI(ctx context.Context, b *bench) ([]Figure, error) {
	u, err := startUI(ctx, b)
	if err != nil {
		return nil, err
	}
	defer u.stop()
	loaded, err := u.firstLoad(ctx)
	if err != nil {
		return nil, err
	}
	latency, err := u.latency(ctx, max(b.count(40), 5))
	if err != nil {
		return nil, err
	}
	if err := u.many(ctx, b.count(5_000)); err != nil {
		return nil, err
	}
	seen, more, heap, err := u.tenPages(ctx, b.lasts(30*time.Second))
	if err != nil {
		return nil, err
	}
	render, err := renderRows(ctx, max(b.count(500), 20))
	return []Figure{
		atMost(20, "ui: first load of a page, compressed", float64(loaded)/1024, "KiB"),
		atMost(150, "ui: change of an object to an open page, median", latency.Seconds()*1000, "ms"),
		atMost(10, "ui: ten open pages, 5,000 requests, 10,000 clusters, 20 changes a second of each", 100*seen, "% of a core"),
		atMost(5, "ui: the same, more CPU of agents, broker and API servers than without pages", 100*more, "% of a core"),
		atMost(25, "ui: the same, heap in use after a collection", float64(heap)/(1<<20), "MiB"),
		atMost(3, "ui: render of a page of 200 rows", render.Seconds()*1000, "ms"),
	}, err
}

// uiProcess is a process of bourse ui, and the federation whose cluster it shows.
type uiProcess struct {
	simulated *simulated.Federation
	objects   kube.Client
	others    []*member // clusters that change
	clusters  int       // how many rome sees
	changed   int       // how many changes were made
	lines     *bufio.Scanner
	command   *exec.Cmd
	browser   *http.Client
	origin    string
	prefix    string
}

func startUI(ctx context.Context, b *bench) (*uiProcess, error) {
	percentage := int32(80)
	sharing := &api.Sharing{Pools: []api.PoolPolicy{{Name: api.GeneralPool, Percentage: &percentage}}}
	dir := filepath.Join(b.dir, "ui")
	full := &books{clusters: max(b.count(many), 20), region: "eu"}
	if err := full.write(ctx, filepath.Join(dir, "broker")); err != nil {
		return nil, err
	}
	f, err := simulated.Start(ctx, dir, slog.New(slog.DiscardHandler),
		&simulated.Member{Options: sim.Options{Name: "rome", Nodes: 2}},
		&simulated.Member{Options: sim.Options{Name: "milan", Nodes: 4}, Sharing: sharing})
	if err != nil {
		return nil, err
	}
	u := &uiProcess{simulated: f, objects: f.Members["rome"].Objects, clusters: full.clusters + 1}
	for i := range 20 {
		m, err := full.join(i, f.URL)
		if err != nil {
			return nil, err
		}
		u.others = append(u.others, m)
	}
	for _, namespace := range []string{api.Namespace, "team"} {
		o := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}
		if err := u.objects.Create(ctx, o); err != nil {
			return nil, err
		}
	}
	kubeconfig := filepath.Join(dir, "rome.kubeconfig")
	if err := f.WriteKubeconfig(kubeconfig, f.Members["rome"]); err != nil {
		return nil, err
	}
	return u, u.start(ctx, kubeconfig)
}

// start starts the process, and logs in.
func (u *uiProcess) start(ctx context.Context, kubeconfig string) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	u.command = exec.CommandContext(ctx, self, "ui", "--no-open", "--kubeconfig", kubeconfig)
	u.command.Stderr = os.Stderr
	out, err := u.command.StdoutPipe()
	if err != nil {
		return err
	}
	if err := u.command.Start(); err != nil {
		return err
	}
	u.lines = bufio.NewScanner(out)
	u.lines.Scan()
	u.origin = strings.TrimSuffix(u.lines.Text(), "/")
	u.lines.Scan()
	code, _, _ := strings.Cut(strings.TrimPrefix(u.lines.Text(), "code: "), " ")
	jar, err := cookiejar.New(nil)
	if err != nil {
		return err
	}
	u.browser = &http.Client{Jar: jar}
	form := url.Values{"code": {code}, "to": {"/"}}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, u.origin+"/login", strings.NewReader(form.Encode()))
	if err != nil {
		return err
	}
	r.Header.Set("Origin", u.origin)
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	answer, err := u.browser.Do(r)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	_, to, ok := strings.Cut(answer.Header.Get("Refresh"), "url=")
	if u.prefix = strings.TrimSuffix(to, "/"); !ok {
		return fmt.Errorf("no login: %s", answer.Status)
	}
	return nil
}

func (u *uiProcess) stop() {
	_ = u.command.Process.Signal(os.Interrupt)
	_ = u.command.Wait()
	_ = u.simulated.Stop()
}

// get returns a page or a file.
func (u *uiProcess) get(ctx context.Context, path string) (string, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, u.origin+path, nil)
	if err != nil {
		return "", err
	}
	answer, err := u.browser.Do(r)
	if err != nil {
		return "", err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	return string(text), err
}

var linked = regexp.MustCompile(`(?:href|src)="([^"]+/static/[^"]+)"`)

// firstLoad returns the bytes of a page with 50 requests and all that it links to, compressed.
func (u *uiProcess) firstLoad(ctx context.Context) (int, error) {
	for i := range 50 {
		if err := u.request(ctx, fmt.Sprintf("loaded-%d", i)); err != nil {
			return 0, err
		}
	}
	time.Sleep(2 * time.Second) // the watch
	page, err := u.get(ctx, u.prefix+"/borrowing")
	if err != nil {
		return 0, err
	}
	files := []string{page}
	for _, match := range linked.FindAllStringSubmatch(page, -1) {
		file, err := u.get(ctx, match[1])
		if err != nil {
			return 0, err
		}
		files = append(files, file)
	}
	total := 0
	for _, file := range files {
		var packed bytes.Buffer
		w := gzip.NewWriter(&packed)
		_, _ = io.WriteString(w, file)
		_ = w.Close()
		total += packed.Len()
	}
	return total, nil
}

func (u *uiProcess) request(ctx context.Context, name string) error {
	o := &api.ResourceRequest{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: name}}
	o.Spec.Resources = api.Resources{"cpu": resource.MustParse("900")} // nobody can serve it: the object alone changes
	return u.objects.Create(ctx, o)
}

// open opens the WebSocket of a page. Each update goes to seen.
func (u *uiProcess) open(ctx context.Context, path string, seen func(html string)) error {
	c, _, err := websocket.Dial(ctx, strings.Replace(u.origin, "http", "ws", 1)+u.prefix+"/live", &websocket.DialOptions{
		HTTPClient: u.browser, HTTPHeader: http.Header{"Origin": {u.origin}}})
	if err != nil {
		return err
	}
	c.SetReadLimit(16 << 20)
	go func() {
		for {
			_, text, err := c.Read(ctx)
			if err != nil {
				return
			}
			seen(string(text))
		}
	}()
	return c.Write(ctx, websocket.MessageText, []byte(path))
}

// latency returns the median time from the creation of an object to the page that shows it.
func (u *uiProcess) latency(ctx context.Context, n int) (time.Duration, error) {
	updates := make(chan string, 16)
	ctx, closePage := context.WithCancel(ctx)
	defer closePage()
	if err := u.open(ctx, "/borrowing?q=late", func(html string) { updates <- html }); err != nil {
		return 0, err
	}
	var took []time.Duration
	for i := range n {
		time.Sleep(3 * time.Second) // until what the last change brought about is over
		for len(updates) > 0 {
			<-updates
		}
		name, begin := fmt.Sprintf("late-%d.", i), time.Now()
		if err := u.request(ctx, name+"x"); err != nil {
			return 0, err
		}
		for shown := false; !shown; {
			select {
			case html := <-updates:
				shown = strings.Contains(html, name)
			case <-time.After(10 * time.Second):
				return 0, fmt.Errorf("%s never came to the page", name)
			}
		}
		took = append(took, time.Since(begin))
	}
	slices.Sort(took)
	return took[len(took)/2], nil
}

// many makes so many requests in all, and waits until the pages have them and all clusters.
func (u *uiProcess) many(ctx context.Context, n int) error {
	for i := 50; i < n; i++ {
		if err := u.request(ctx, fmt.Sprintf("loaded-%d", i)); err != nil {
			return err
		}
	}
	for path, text := range map[string]string{fmt.Sprintf("/borrowing?q=loaded-%d", n-1): fmt.Sprintf("row-team/loaded-%d", n-1),
		"/clusters": fmt.Sprintf("1–50 of %d clusters", u.clusters)} {
		err := waitUntil(ctx, 2*time.Minute, path+" shows "+text, func() (bool, error) {
			page, err := u.get(ctx, u.prefix+path)
			return strings.Contains(page, text), err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// tenPages returns the share of a core that the process uses with ten open pages while objects and clusters change, how
// much more all others use than before and after that, and the bytes of the process's heap.
func (u *uiProcess) tenPages(ctx context.Context, lasts time.Duration) (cpu, more float64, heap uint64, err error) {
	before, err := u.changes(ctx, lasts)
	if err != nil {
		return 0, 0, 0, err
	}
	open, closePages := context.WithCancel(ctx)
	defer closePages()
	for _, path := range []string{"/", "/borrowing", "/borrowing?q=a", "/borrowing?q=b", "/borrowing?state=Rejected",
		"/find?cpu=1", "/clusters", "/requests/team/loaded-1", "/requests/team/loaded-2", "/clusters?sort=-cpu"} {
		if err := u.open(open, path, func(string) {}); err != nil {
			return 0, 0, 0, err
		}
	}
	time.Sleep(12 * time.Second) // each question was asked
	with, err := u.changes(ctx, lasts)
	if err != nil {
		return 0, 0, 0, err
	}
	if heap, err = u.heap(); err != nil {
		return 0, 0, 0, err
	}
	closePages()
	after, err := u.changes(ctx, lasts)
	return with.ui, with.rest - (before.rest+after.rest)/2, heap, err
}

// shares are shares of a core: that of bourse ui, and that of this process, which has the agents, the broker, the API
// servers, what changes and who looks.
type shares struct{ ui, rest float64 }

// changes changes 20 objects and 20 clusters each second, and returns what that costs.
func (u *uiProcess) changes(ctx context.Context, lasts time.Duration) (shares, error) {
	used := func() (out [2]time.Duration, err error) {
		if out[0], err = federation.CPUOf(u.command.Process.Pid); err == nil {
			out[1], err = cpuTime()
		}
		return out, err
	}
	before, err := used()
	if err != nil {
		return shares{}, err
	}
	begin := time.Now()
	for i := 0; time.Since(begin) < lasts; i++ {
		o := &api.ResourceRequest{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: fmt.Sprintf("loaded-%d", i%50)}}
		patch := kube.RawPatch("application/merge-patch+json", fmt.Appendf(nil, `{"metadata":{"annotations":{"n":"%d"}}}`, u.changed))
		if err := u.objects.Patch(ctx, o, patch); err != nil {
			return shares{}, err
		}
		if err := u.change(ctx, u.others[i%len(u.others)]); err != nil {
			return shares{}, err
		}
		u.changed++
		time.Sleep(time.Until(begin.Add(time.Duration(i+1) * 50 * time.Millisecond)))
	}
	after, err := used()
	lasted := time.Since(begin).Seconds()
	return shares{(after[0] - before[0]).Seconds() / lasted, (after[1] - before[1]).Seconds() / lasted}, err
}

// heap returns the bytes of the process's heap that are in use after a collection, the least of five: most collections come
// amid the render of a page, and what that needs is gone after it.
func (u *uiProcess) heap() (uint64, error) {
	var all []uint64
	for range 5 {
		if err := u.command.Process.Signal(syscall.SIGUSR2); err != nil {
			return 0, err
		}
		text, is := "", false
		for !is {
			if !u.lines.Scan() {
				return 0, fmt.Errorf("bourse ui does not say what its heap is: %w", u.lines.Err())
			}
			text, is = strings.CutPrefix(u.lines.Text(), heapLine+" ")
		}
		n, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			return 0, err
		}
		all = append(all, n)
		time.Sleep(1500 * time.Millisecond)
	}
	return slices.Min(all), nil
}

// change has a cluster advertise other amounts.
func (u *uiProcess) change(ctx context.Context, m *member) error {
	m.measured.Sequence.Number++
	pool := m.measured.Pools[api.GeneralPool]
	pool.Allocated = resources("cpu", strconv.FormatInt(int64(m.measured.Sequence.Number), 10))
	m.measured.Pools = map[string]api.Pool{api.GeneralPool: pool}
	return m.broker.PutAdvertisement(ctx, m.cluster, m.measured)
}

// renderRows returns the time of one render of a page of 200 rows.
func renderRows(ctx context.Context, n int) (time.Duration, error) {
	var requests []client.RequestStatus
	for i := range 200 {
		r := client.RequestStatus{ID: fmt.Sprintf("team/request-%d", i)}
		r.Payload.Request.Resources = api.Resources{"cpu": resource.MustParse("4"), "memory": resource.MustParse("8Gi")}
		r.Payload.Status = api.ResourceRequestStatus{State: api.Active, Provider: "milan", Message: "milan is bound until tomorrow"}
		requests = append(requests, r)
	}
	b := uipages.NewBorrowed(uipages.Listed{Requests: slices.Values(requests)})
	v := uipages.View{Prefix: "/s/0", Path: "/borrowing", Cluster: "rome", Now: time.Now()}
	begin := time.Now()
	for range n {
		if err := uipages.Layout(v, uipages.Borrowing(v, b)).Render(ctx, io.Discard); err != nil {
			return 0, err
		}
	}
	return time.Since(begin) / time.Duration(n), nil
}
