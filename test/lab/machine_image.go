package lab

import (
	"bytes"
	"debug/elf"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// machineModules are the kernel's modules that Liqo's data plane and the machine need.
var machineModules = []string{
	"virtio_pci", "virtio_net", "virtio_blk", "veth", "bridge", "br_netfilter", "wireguard", "geneve",
	"nf_tables", "nft_chain_nat", "nft_nat",
	"nft_masq", "nft_ct", "nft_numgen", "nft_hash", "nft_redir", "nft_reject_inet", "nft_reject_ipv4", "nft_limit",
	"nft_log", "nft_fib_inet", "nft_fib_ipv4", "nft_objref", "nf_conntrack_netlink", "af_packet",
}

// image is the file system of a machine: an archive that the kernel unpacks into memory.
type image struct {
	out     io.Writer
	tree    string
	inode   int
	has     map[string]bool
	modules []string // in the order in which they are loaded
	err     error
}

// writeTo writes the file system: tools and modules out of the packages, the guest program, and
// what the machine is for.
func (s machineSpec) writeTo(out io.Writer, guest string) error {
	i := &image{out: out, tree: s.tree, has: map[string]bool{}}
	i.copy("/bin/busybox", "bin/busybox")
	for _, tool := range []string{"bin/ip", "usr/sbin/nft", "usr/bin/wg", "usr/sbin/conntrack"} {
		i.tool(tool)
	}
	i.copy("/bin/guest", guest)
	i.add("/bin/get", fs.ModeSymlink|0o777, []byte("/bin/guest"))
	if err := s.fill(i); err != nil {
		return err
	}
	kernel, err := fs.Glob(os.DirFS(s.tree), "lib/modules/*")
	if err != nil || len(kernel) != 1 {
		return fmt.Errorf("%s has %d kernels, %w", s.tree, len(kernel), err)
	}
	i.load(filepath.Join(s.tree, kernel[0]), s.modules)
	i.add("/modules/order", 0o644, []byte(strings.Join(i.modules, "\n")+"\n"))
	i.add("/init", 0o755, machineInit)
	i.add("TRAILER!!!", 0, nil)
	return i.err
}

// copy adds a file of the tree, or of an absolute path.
func (i *image) copy(name, from string) {
	if !filepath.IsAbs(from) {
		from = filepath.Join(i.tree, from)
	}
	content, err := os.ReadFile(from)
	if err != nil && i.err == nil {
		i.err = err
	}
	i.add(name, 0o755, content)
}

// tool adds a program of the tree with the libraries that it is linked with.
func (i *image) tool(name string) {
	if i.has["/"+name] || i.err != nil {
		return
	}
	i.copy("/"+name, name)
	file, err := elf.Open(filepath.Join(i.tree, name))
	if err != nil {
		i.err = err
		return
	}
	defer file.Close()
	libraries, err := file.ImportedLibraries()
	if err != nil {
		i.err = err
		return
	}
	for _, library := range append(libraries, "ld-linux-x86-64.so.2") {
		for _, dir := range []string{"lib/x86_64-linux-gnu", "usr/lib/x86_64-linux-gnu"} {
			if _, err := os.Stat(filepath.Join(i.tree, dir, library)); err == nil {
				i.tool(filepath.Join(dir, library))
				break
			}
		}
	}
	i.add("/lib64/ld-linux-x86-64.so.2", fs.ModeSymlink|0o777, []byte("/lib/x86_64-linux-gnu/ld-linux-x86-64.so.2"))
}

// load adds modules, after those that they depend on. A module that is not there is part of the kernel.
func (i *image) load(dir string, names []string) {
	files := map[string]string{}
	err := filepath.WalkDir(dir, func(file string, _ fs.DirEntry, err error) error {
		if name, is := strings.CutSuffix(filepath.Base(file), ".ko"); is {
			files[strings.ReplaceAll(name, "-", "_")] = file
		}
		return err
	})
	if err != nil || len(files) == 0 {
		i.err = fmt.Errorf("%s has %d modules, %w", dir, len(files), err)
		return
	}
	var add func(name string)
	add = func(name string) {
		file, has := files[name]
		if !has || i.has["/modules/"+name] || i.err != nil {
			return
		}
		i.copy("/modules/"+name, file)
		depends, err := dependsOn(file)
		if err != nil {
			i.err = err
		}
		for _, other := range depends {
			add(strings.ReplaceAll(other, "-", "_"))
		}
		i.modules = append(i.modules, name)
	}
	for _, name := range names {
		add(name)
	}
}

// dependsOn returns the modules that a module says it needs.
func dependsOn(module string) ([]string, error) {
	file, err := elf.Open(module)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	section := file.Section(".modinfo")
	if section == nil {
		return nil, fmt.Errorf("%s does not say what it needs", module)
	}
	info, err := section.Data()
	if err != nil {
		return nil, err
	}
	var depends []string
	for _, line := range bytes.Split(info, []byte{0}) {
		for _, key := range []string{"depends=", "softdep=pre: "} {
			if list, is := bytes.CutPrefix(line, []byte(key)); is {
				depends = append(depends, strings.FieldsFunc(string(list), func(r rune) bool { return r == ',' || r == ' ' })...)
			}
		}
	}
	return slices.DeleteFunc(depends, func(s string) bool { return s == "" }), nil
}

// add writes an entry in the format newc of cpio, after its folders.
func (i *image) add(name string, mode fs.FileMode, content []byte) {
	if i.err != nil || i.has[name] {
		return
	}
	i.has[name] = true
	kind := 0o100000
	switch {
	case name == "TRAILER!!!":
		kind = 0
	case mode.IsDir():
		kind = 0o040000
	case mode&fs.ModeSymlink != 0:
		kind = 0o120000
	}
	if dir := filepath.Dir(name); kind != 0 && dir != "/" && dir != "." {
		i.add(dir, fs.ModeDir|0o755, nil)
	}
	i.inode++
	path := strings.TrimPrefix(name, "/") + "\x00"
	head := fmt.Sprintf("070701%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%s",
		i.inode, kind|int(mode.Perm()), 0, 0, 1, 0, len(content), 0, 0, 0, 0, len(path), 0, path)
	for _, part := range [][]byte{[]byte(head), content} {
		if i.err == nil {
			_, i.err = i.out.Write(append(part, make([]byte, -len(part)&3)...))
		}
	}
}
