package lab

import (
	"bufio"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
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

// machineSpec says what a machine is made of.
type machineSpec struct {
	dir     string // its folder, which must not exist
	tree    string // the packages that it is made of
	memory  int    // MiB
	modules []string
	disks   []string           // the files of read-only disks: vda, vdb, ...
	port    int                // of the machine, also one of 127.0.0.1 here; 0 for none
	fill    func(*image) error // adds what runs inside
}

// Machine boots the lab's machine. Errors: ErrNoPackages.
func (l *Lab) Machine(ctx context.Context) (*Machine, error) {
	tree, err := FetchMachine(ctx, l.progress)
	if err != nil {
		return nil, err
	}
	device, err := defaultDevice()
	if err != nil {
		return nil, err
	}
	bin, err := buildLiqoNetwork(ctx, l.progress)
	if err != nil {
		return nil, err
	}
	var disks []string
	for _, d := range inMachine {
		disks = append(disks, bin.Path(d))
	}
	m, err := l.bootMachine(ctx, machineSpec{
		dir: filepath.Join(l.dir, "machine"), tree: tree, memory: 1280, modules: machineModules, disks: disks,
		fill: func(i *image) error {
			i.add("/images/web", fs.ModeSymlink|0o777, []byte("/bin/guest"))
			i.add("/bin/measure", fs.ModeSymlink|0o777, []byte("/bin/guest"))
			return nil
		},
	})
	if err != nil {
		return nil, err
	}
	m.device = device
	_, err = m.Run(ctx, betweenNodes)
	return m, err
}

// betweenNodes is the script that lets nothing pass between nodes but the packets of gateways: UDP to ports of
// Services. startMachineNode lets each node reach its own API server.
const betweenNodes = `nft -f - <<'END'
table ip machine {
	chain forward {
		type filter hook forward priority 0
		ct state established,related accept
		iifname "lan" udp dport 30000-32767 accept
		counter reject
	}
}
END`

// pull is the script that copies a program of a container from its disk, unless it is there.
func pull(name string) string {
	i := slices.Index(inMachine, Daemon(name))
	if i < 0 {
		return ""
	}
	return fmt.Sprintf(`[ -e /images/%[1]s ] || {
	file=$(mktemp -p /images)
	cat /dev/vd%[2]c > $file
	chmod 755 $file
	mv $file /images/%[1]s
}
`, name, 'a'+i)
}

// bootMachine builds a machine, and returns when it runs scripts.
func (l *Lab) bootMachine(ctx context.Context, spec machineSpec) (*Machine, error) {
	begin, m := time.Now(), &Machine{lab: l}
	if err := os.Mkdir(spec.dir, 0o700); err != nil {
		return nil, err
	}
	if err := spec.writeImage(ctx); err != nil {
		return nil, err
	}
	if err := m.boot(spec); err != nil {
		return nil, err
	}
	ready, limit := &Cluster{lab: l}, time.Second
	if err := ready.await(ctx, "the machine", func(ctx context.Context) error {
		limit += time.Second / 4 // a slow one may not answer within the first
		ctx, cancel := context.WithTimeout(ctx, limit)
		defer cancel()
		_, err := m.Run(ctx, "true")
		return err
	}); err != nil {
		return nil, fmt.Errorf("%w; the end of its console:\n%s", err, tail(filepath.Join(spec.dir, "console.log"), 15))
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
func (s machineSpec) writeImage(ctx context.Context) error {
	guest := filepath.Join(s.dir, "guest")
	if err := buildGuest(ctx, guest); err != nil {
		return err
	}
	file, err := os.Create(filepath.Join(s.dir, "image"))
	if err != nil {
		return err
	}
	out := bufio.NewWriterSize(file, 1<<20)
	return errors.Join(s.writeTo(out, guest), out.Flush(), file.Close())
}

func (m *Machine) boot(spec machineSpec) error {
	port, err := FreePort()
	if err != nil {
		return err
	}
	m.address = fmt.Sprintf("127.0.0.1:%d", port)
	forward := fmt.Sprintf(",hostfwd=tcp:%s-10.0.2.15:7000", m.address)
	if spec.port != 0 {
		forward += fmt.Sprintf(",hostfwd=tcp:127.0.0.1:%[1]d-10.0.2.15:%[1]d", spec.port)
	}
	tree, dir := spec.tree, spec.dir
	kernels, err := filepath.Glob(filepath.Join(tree, "boot", "vmlinuz-*"))
	if err != nil || len(kernels) != 1 {
		return fmt.Errorf("%s has %d kernels, %w", tree, len(kernels), err)
	}
	libraries := filepath.Join(tree, "lib/x86_64-linux-gnu")
	// The tree's own loader runs the tree's QEMU: the system's C library may be another.
	args := []string{
		"--library-path", libraries + ":" + filepath.Join(tree, "usr/lib/x86_64-linux-gnu"),
		filepath.Join(tree, "usr/bin/qemu-system-x86_64"),
		"-L", filepath.Join(tree, "usr/share/qemu"), "-L", filepath.Join(tree, "usr/share/seabios"),
		"-nodefaults", "-no-user-config", "-display", "none", "-no-reboot", "-serial", "file:console.log",
		"-accel", "tcg,thread=multi,tb-size=256", "-cpu", "max", "-smp", "2", "-m", strconv.Itoa(spec.memory),
		"-kernel", kernels[0], "-initrd", "image",
		"-netdev", "user,id=n0" + forward,
		"-device", "virtio-net-pci,netdev=n0,romfile=", "-device", "virtio-rng-pci",
		"-append", "console=ttyS0 panic=-1 mitigations=off net.ifnames=0 rdinit=/init",
	}
	for _, file := range spec.disks {
		args = append(args, "-drive", "if=virtio,format=raw,readonly=on,file="+file)
	}
	p, err := run(filepath.Join(libraries, "ld-linux-x86-64.so.2"), args, dir, filepath.Join(dir, "qemu.log"),
		func(err error) { m.lab.end(err) }, "QEMU_MODULE_DIR="+filepath.Join(tree, "usr/lib/x86_64-linux-gnu/qemu"))
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
