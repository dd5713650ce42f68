package lab

import (
	"bufio"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// Machine is one small virtual machine (QEMU, emulated: no KVM, no root) for the nodes of a lab's
// clusters whose packets must flow. Each node is a network namespace in it, and so is each pod.
// Node NAME has the interfaces up0, to its API server, and lan0, to the other nodes; the machine's
// end of the latter is lan-NAME.
type Machine struct {
	lab     *Lab
	address string // where it runs scripts
	// device is the name of each pod's interface. Liqo's controller manager, a process on this machine, takes
	// that of its own default route for theirs.
	device string
}

//go:embed machine-init
var machineInit []byte

// Machine boots the lab's machine. Errors: ErrNoPackages.
func (l *Lab) Machine(ctx context.Context) (*Machine, error) {
	begin := time.Now()
	tree, err := FetchMachine(ctx, l.progress)
	if err != nil {
		return nil, err
	}
	m := &Machine{lab: l}
	if m.device, err = defaultDevice(); err != nil {
		return nil, err
	}
	dir := filepath.Join(l.dir, "machine")
	if err := os.Mkdir(dir, 0o700); err != nil {
		return nil, err
	}
	if err := m.writeImage(ctx, tree, filepath.Join(dir, "image")); err != nil {
		return nil, err
	}
	if err := m.boot(tree, dir); err != nil {
		return nil, err
	}
	ready := &Cluster{lab: l}
	if err := ready.await(ctx, "the machine", func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		_, err := m.Run(ctx, "true")
		return err
	}); err != nil {
		return nil, fmt.Errorf("%w; the end of its console:\n%s", err, tail(filepath.Join(dir, "console.log"), 15))
	}
	l.say("the machine is up after %.1fs", time.Since(begin).Seconds())
	return m, nil
}

// defaultDevice is the name of the interface of this machine's default route.
func defaultDevice() (string, error) {
	routes, err := os.Open("/proc/net/route")
	if err != nil {
		return "", err
	}
	defer routes.Close()
	for lines := bufio.NewScanner(routes); lines.Scan(); {
		if fields := strings.Fields(lines.Text()); len(fields) > 1 && fields[1] == "00000000" {
			return fields[0], nil
		}
	}
	return "", errors.New("this machine has no default route, without which Liqo's controller manager does not start")
}

// writeImage builds what runs inside, and writes it to a file.
func (m *Machine) writeImage(ctx context.Context, tree, path string) error {
	bin, err := buildLiqoNetwork(ctx, m.lab.progress)
	if err != nil {
		return err
	}
	guest := path + "-guest"
	if err := buildGuest(ctx, guest); err != nil {
		return err
	}
	containers := map[string]string{}
	for _, p := range liqoNetworkPrograms {
		containers[strings.TrimPrefix(string(p.name), "liqo-")] = bin.Path(p.name)
	}
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	out := bufio.NewWriterSize(file, 1<<20)
	return errors.Join(writeImage(out, tree, guest, containers), out.Flush(), file.Close())
}

func (m *Machine) boot(tree, dir string) error {
	port, err := FreePort()
	if err != nil {
		return err
	}
	m.address = fmt.Sprintf("127.0.0.1:%d", port)
	kernels, err := filepath.Glob(filepath.Join(tree, "boot", "vmlinuz-*"))
	if err != nil || len(kernels) != 1 {
		return fmt.Errorf("%s has %d kernels, %w", tree, len(kernels), err)
	}
	libraries := filepath.Join(tree, "lib/x86_64-linux-gnu")
	// The tree's own loader runs the tree's QEMU: the system's C library may be another.
	p, err := run(filepath.Join(libraries, "ld-linux-x86-64.so.2"), []string{
		"--library-path", libraries + ":" + filepath.Join(tree, "usr/lib/x86_64-linux-gnu"),
		filepath.Join(tree, "usr/bin/qemu-system-x86_64"),
		"-L", filepath.Join(tree, "usr/share/qemu"), "-L", filepath.Join(tree, "usr/share/seabios"),
		"-nodefaults", "-no-user-config", "-display", "none", "-no-reboot", "-serial", "file:console.log",
		"-accel", "tcg,thread=multi,tb-size=128", "-cpu", "max", "-smp", "2", "-m", "1024",
		"-kernel", kernels[0], "-initrd", "image",
		"-netdev", fmt.Sprintf("user,id=n0,hostfwd=tcp:%s-10.0.2.15:7000", m.address),
		"-device", "virtio-net-pci,netdev=n0,romfile=", "-device", "virtio-rng-pci",
		"-append", "console=ttyS0 panic=-1 quiet mitigations=off net.ifnames=0 rdinit=/init",
	}, dir, filepath.Join(dir, "qemu.log"), func(err error) { m.lab.end(err) },
		"QEMU_MODULE_DIR="+filepath.Join(tree, "usr/lib/x86_64-linux-gnu/qemu"))
	if err != nil {
		return err
	}
	m.lab.mu.Lock()
	defer m.lab.mu.Unlock()
	m.lab.machines = append(m.lab.machines, p)
	return nil
}

// Run runs a shell script in the machine, which ends with the first command that fails, and returns
// its output. The script calls the network tools by their path: /bin/ip.
func (m *Machine) Run(ctx context.Context, script string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+m.address, strings.NewReader(script))
	if err != nil {
		return "", err
	}
	r.Close = true // while the machine boots, QEMU accepts connections that lead nowhere
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		return "", err
	}
	defer answer.Body.Close()
	out, err := io.ReadAll(answer.Body)
	if err == nil && answer.StatusCode != http.StatusOK {
		err = fmt.Errorf("in the machine: %s\nfailed with: %s", script, out)
	}
	return string(out), err
}
