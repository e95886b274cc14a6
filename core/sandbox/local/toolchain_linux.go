package local

import (
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/valence-rl/valence/core/sandbox/local/internal/first"
)

// toolchain is what every sandbox sees of the host, and how its commands find it.
type toolchain struct {
	binds    []first.Bind
	links    []string // pairs: name, target
	files    []string // pairs: name, contents
	env      []string
	reserved []string // where no workspace can appear
	kit      string   // folder that [PrepareGo] fills; "": there is no Go
	vendored string   // how the folders begin of what vendored packages compile to
}

// accounts of a sandbox. Only root exists when a user without rights runs the host.
const (
	passwdFile = "root:x:0:0:root:/tmp:/bin/bash\nnobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n"
	groupFile  = "root:x:0:\ntty:x:5:\nnogroup:x:65534:\n"
	hostsFile  = "127.0.0.1 localhost sandbox\n::1 localhost\n"
	nssFile    = "passwd: files\ngroup: files\nhosts: files\n"
)

const standardPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// findToolchain looks at the host once. interpreter and prefix may be empty.
func findToolchain(interpreter, prefix string) toolchain {
	t := toolchain{
		files: []string{
			"etc/passwd", passwdFile, "etc/group", groupFile, "etc/hosts", hostsFile, "etc/nsswitch.conf", nssFile, "etc/hostname", "sandbox\n",
		},
		reserved: []string{"/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/etc", "/proc", "/sys", "/dev"},
	}
	for _, d := range []string{"/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32"} {
		info, err := os.Lstat(d)
		if err != nil {
			continue
		}
		if info.Mode()&os.ModeSymlink != 0 {
			if target, err := os.Readlink(d); err == nil {
				t.links = append(t.links, strings.TrimPrefix(d, "/"), target)
			}
		} else if info.IsDir() {
			t.binds = append(t.binds, first.Bind{Path: d, Target: d})
		}
	}
	if info, err := os.Stat("/etc/alternatives"); err == nil && info.IsDir() {
		t.binds = append(t.binds, first.Bind{Path: "/etc/alternatives", Target: "/etc/alternatives"})
	}
	if info, err := os.Stat("/etc/ld.so.cache"); err == nil && info.Mode().IsRegular() {
		t.binds = append(t.binds, first.Bind{Path: "/etc/ld.so.cache", Target: "/etc/ld.so.cache", File: true})
	}
	search := standardPath
	if interpreter != "" {
		if !within(prefix, "/usr") {
			t.binds = append(t.binds, first.Bind{Path: prefix, Target: prefix})
			t.reserved = append(t.reserved, prefix)
		}
		if dir := filepath.Dir(interpreter); !slices.Contains(strings.Split(search, ":"), dir) {
			search = dir + ":" + search
		}
	}
	t.env = []string{
		"PATH=" + search, "HOME=/tmp", "USER=root", "LOGNAME=root", "SHELL=/bin/bash", "LANG=C.UTF-8", "TZ=UTC", "TERM=dumb",
		"PYTHONHASHSEED=0", "PYTHONDONTWRITEBYTECODE=1",
	}
	return t
}

// addGo shows the host's Go, where there is one, and knows where [PrepareGo] leaves what
// it makes in dir.
func (t *toolchain) addGo(dir string) {
	g, err := FindGo()
	if err != nil {
		return // those who need it are told by the command that is not found
	}
	if !within(g.Root, "/usr") {
		t.binds = append(t.binds, first.Bind{Path: g.Root, Target: g.Root})
		t.reserved = append(t.reserved, g.Root)
	}
	t.kit, t.vendored = g.kit(dir), g.vendored(dir)
	t.reserved = append(t.reserved, goKitAt, goVendorAt)
	t.env[0] += ":" + goKitAt + "/bin"
	t.env[0] += ":" + filepath.Join(g.Root, "bin")
}

func isFolder(p string) bool {
	info, err := os.Stat(p)
	return err == nil && info.IsDir()
}

// within tells whether path is dir or lies under it.
func within(path, dir string) bool {
	return path == dir || strings.HasPrefix(path, strings.TrimSuffix(dir, "/")+"/")
}
