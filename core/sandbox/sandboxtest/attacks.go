package sandboxtest

import (
	"bytes"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/valence-rl/valence/core/sandbox"
)

// attack runs the attacker inside and gives its report.
func (s *suite) attack(b sandbox.Sandbox, args ...string) string {
	s.Helper()
	r := s.run(b, sandbox.Command{Args: append([]string{"./" + attackerName}, args...)})
	if r.ExitCode != 0 {
		s.Fatalf("%v ended with code %d: %s", args, r.ExitCode, clip(r.Output))
	}
	return string(r.Output)
}

func network(s *suite) {
	tcp, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		s.Fatal(err)
	}
	defer tcp.Close()
	name := "@sandboxtest-" + rand.Text()
	abstract, err := net.Listen("unix", name)
	if err != nil {
		s.Fatal(err)
	}
	defer abstract.Close()
	// The listeners must work, or their silence proves nothing.
	for _, l := range []net.Listener{tcp, abstract} {
		c, err := net.Dial(l.Addr().Network(), l.Addr().String())
		if err != nil {
			s.Fatal(err)
		}
		c.Close()
	}
	b := s.armed(sandbox.Limits{})
	for _, to := range [][2]string{{"tcp", tcp.Addr().String()}, {"unix", name}, {"tcp", "1.1.1.1:53"}, {"udp", "1.1.1.1:53"}, {"tcp", "[2606:4700:4700::1111]:53"}} {
		if out := s.attack(b, "dial", to[0], to[1]); !strings.HasPrefix(out, "refused") {
			s.Errorf("%v: %s", to, out)
		}
	}
	families, loopback := "inet inet6 netlink unix \n", "ok\n"
	if !s.contained("loopback") {
		families = "\n"
	}
	if out := s.attack(b, "families"); out != families {
		s.Errorf("families of sockets: %q", out)
	}
	if out := s.attack(b, "loopback"); families != "\n" && out != loopback {
		s.Errorf("the sandbox's own loopback: %q", out)
	}
	if !s.contained("machine") || !s.contained("interfaces") {
		return
	}
	if out := s.shell(b, "ls /sys/class/net 2>/dev/null; tail -n +3 /proc/net/dev | cut -d: -f1"); strings.TrimSpace(out) != "lo" {
		s.Errorf("interfaces: %q", out)
	}
}

func secrets(s *suite) {
	token := "sandboxtest-" + rand.Text()
	// By a name of its own, as several levels may be tried at the same time.
	variable := "SANDBOXTEST_" + rand.Text()
	if err := os.Setenv(variable, token); err != nil {
		s.Fatal(err)
	}
	defer os.Unsetenv(variable)
	b := s.armed(sandbox.Limits{})
	out := s.shell(b, "env; tr '\\0' '\\n' < /proc/1/environ; cat /proc/1/cmdline; cat /proc/*/environ 2>/dev/null; true")
	if strings.Contains(out, token) {
		s.Error("the host's environment is visible")
	}
	name := s.shell(b, "cat /proc/sys/kernel/hostname")
	if host, err := os.Hostname(); err == nil && host != "sandbox" && name == host+"\n" && s.contained("machine") {
		s.Errorf("the host's name is visible")
	}
	if !s.contained("processes") {
		return
	}
	own := strings.TrimSpace(s.shell(b, "ls -d /proc/[0-9]* | wc -l"))
	if len(own) > 1 {
		s.Errorf("%s processes are visible", own)
	}
}

func descriptors(s *suite) {
	// Descriptors without the close-on-exec flag, as a library or a shell leaves them.
	f, err := os.Open(s.TempDir())
	if err != nil {
		s.Fatal(err)
	}
	defer f.Close()
	for range 3 {
		fd, err := syscall.Dup(int(f.Fd()))
		if err != nil {
			s.Fatal(err)
		}
		defer syscall.Close(fd)
	}
	if out := s.attack(s.armed(sandbox.Limits{}), "descriptors"); out != "0 1 2 \n" {
		s.Errorf("open in a command: %s", out)
	}
}

func kernel(s *suite) {
	b := s.armed(sandbox.Limits{})
	if out := s.attack(b, "calls"); out != "\n" {
		s.Errorf("these system calls were let through: %s", out)
	}
	closed := []string{"/proc/sysrq-trigger", "/proc/sys/kernel/core_pattern", "/proc/sys/vm/drop_caches", "/proc/sys/net/ipv4/ip_forward",
		"/dev/kmsg", "/dev/mem", "/sys/kernel/uevent_helper", "/proc/1/exe", "/proc/1/mem"}
	if s.contained("tool chain") {
		closed = append(closed, "/usr/bin/env", "/etc/ld.so.cache")
	}
	if out := s.attack(b, append([]string{"writable"}, closed...)...); out != "\n" {
		s.Errorf("these could be opened for writing: %s", out)
	}
	r := s.run(b, sandbox.Command{Shell: `kill -9 1; kill -STOP 1; grep NoNewPrivs /proc/self/status; mknod /tmp/disk b 254 0 && head -c 1 /tmp/disk; mount -t tmpfs x /mnt; unshare -r true; chroot / true; kill -9 1; echo end`})
	if !strings.Contains(string(r.Output), "NoNewPrivs:\t1") || !strings.HasSuffix(string(r.Output), "end\n") {
		s.Errorf("got %s", clip(r.Output))
	}
	s.alive(b)
	if !s.contained("kernel") {
		return
	}
	if out := s.shell(b, "cat /proc/cmdline | wc -c; ls -A /sys | wc -l"); out != "0\n0\n" {
		s.Errorf("the host's kernel is visible: %q", out)
	}
}

// hostFiles: nothing but the tool chain is there.
func hostFiles(s *suite) {
	dir := s.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "secret"), []byte("x"), 0o644); err != nil {
		s.Fatal(err)
	}
	work, err := os.Getwd()
	if err != nil {
		s.Fatal(err)
	}
	b := s.plain()
	for _, p := range []string{filepath.Join(dir, "secret"), "/etc/shadow", "/etc/hostname"} {
		if data, err := os.ReadFile(p); err == nil {
			r := s.run(b, sandbox.Command{Args: []string{"cat", p}})
			if r.ExitCode == 0 && bytes.Equal(r.Output, data) && len(data) > 0 {
				s.Errorf("%s can be read", p)
			}
		}
	}
	for _, line := range []string{"touch " + dir + "/x", "echo > " + dir + "/secret", "rm " + dir + "/secret"} {
		if r := s.run(b, sandbox.Command{Shell: line}); r.ExitCode == 0 {
			s.Errorf("%q works on the host's files", line)
		}
	}
	if !s.contained("names") {
		return
	}
	for _, p := range []string{dir, work, "/etc/shadow", "/var/log", "/var/lib", "/boot", "/run", "/mnt/x", "/etc/ssh", "/etc/hostname.host"} {
		if r := s.run(b, sandbox.Command{Args: []string{"ls", p}}); r.ExitCode == 0 {
			s.Errorf("%s is visible: %s", p, clip(r.Output))
		}
	}
	if out := s.shell(b, "ls -A /home /root/.ssh 2>/dev/null; ls -A /tmp; true"); strings.TrimSpace(out) != "" {
		s.Errorf("found %s", out)
	}
	if out := s.shell(b, "cat /proc/self/mountinfo"); s.contained("mountinfo") && (strings.Contains(out, dir) || strings.Contains(out, work)) {
		s.Errorf("the host's paths are visible: %s", out)
	}
	if !s.contained("tool chain") {
		return
	}
	if r := s.run(b, sandbox.Command{Shell: "touch /usr/x"}); r.ExitCode == 0 {
		s.Error("the tool chain can be written")
	}
}

func processes(s *suite) {
	if !s.enforced("pids") {
		return
	}
	const most = 60
	b := s.make(sandbox.Spec{Limits: sandbox.Limits{Pids: most}})
	// A shell that fails to fork ends or retries; both ways it says how far it came.
	r := s.run(b, sandbox.Command{Args: []string{"/bin/sh", "-c", "i=0; while [ $i -lt 600 ]; do sleep 100005 & i=$((i+1)); echo $i; done"}, Timeout: 10 * time.Second})
	started := 0
	for _, l := range strings.Split(string(r.Output), "\n") {
		var n int
		if _, err := fmt.Sscan(l, &n); err == nil {
			started = max(started, n)
		}
	}
	if started < most/2 || started > most+20 {
		s.Errorf("%d processes were started at a limit of %d: %s", started, most, clip(r.Output))
	}
	// While nothing more can be started, a command fails like a command, and files work.
	for range 5 {
		s.run(b, sandbox.Command{Shell: "true; true"})
	}
	s.write(b)
	if _, err := b.Read(s.ctx, "nothing", 0); !errors.Is(err, fs.ErrNotExist) {
		s.Errorf("read: %v", err)
	}
	// A deadline clears everything.
	s.run(b, sandbox.Command{Args: []string{"sleep", "100005"}, Timeout: 100 * time.Millisecond})
	s.run(b, sandbox.Command{Shell: ":(){ :|:& };:", Timeout: 2 * time.Second})
	s.run(b, sandbox.Command{Args: []string{"sleep", "100005"}, Timeout: 100 * time.Millisecond})
	s.until("a command can be started again", func() bool {
		r, err := b.Exec(s.ctx, sandbox.Command{Shell: "echo alive; true", Timeout: 100 * time.Millisecond})
		return err == nil && string(r.Output) == "alive\n"
	})
}

func memory(s *suite) {
	if !s.enforced("memory") {
		return
	}
	b := s.armed(sandbox.Limits{Memory: 256 << 20, Disk: 64 << 20})
	r := s.run(b, sandbox.Command{Args: []string{"./" + attackerName, "memory", "600"}})
	if r.ExitCode != 137 || strings.Contains(string(r.Output), "got") {
		s.Errorf("600 MB at 256: code %d, %s", r.ExitCode, clip(r.Output))
	}
	s.alive(b)
	if out := s.attack(b, "memory", "60"); out != "got 60\n" {
		s.Errorf("60 MB at 256: %s", out)
	}
	if !s.contained("first process") {
		return
	}
	// Many small processes: the kernel kills the largest, which might be the
	// sandbox's own first one. That would make the sandbox fail, not the command.
	small := s.make(sandbox.Spec{Limits: sandbox.Limits{Memory: 64 << 20, Disk: 8 << 20}})
	const many = "for i in $(seq 50); do (head -c %[1]d /dev/zero | tail -c %[1]d | sleep 1) & done; wait"
	for _, line := range []string{
		fmt.Sprintf(many, 4_000_000),
		// Those who try to be spared.
		"echo 0 > /proc/self/oom_score_adj; echo -1000 > /proc/self/oom_score_adj; " + fmt.Sprintf(many, 1_500_000),
	} {
		s.run(small, sandbox.Command{Shell: line, Timeout: 5 * time.Second})
		// Those whose shell was killed go on for a moment, and may cost the next command its life.
		s.until("a command can be started again", func() bool {
			return string(s.run(small, sandbox.Command{Shell: "echo alive"}).Output) == "alive\n"
		})
	}
}

func disk(s *suite) {
	if !s.enforced("disk") {
		return
	}
	b := s.make(sandbox.Spec{Limits: sandbox.Limits{Disk: 32 << 20}})
	for _, place := range []string{"/workspace/fill", "/tmp/fill", "/dev/shm/fill", "/var/tmp/fill", "/fill"} {
		r := s.run(b, sandbox.Command{Args: []string{"dd", "if=/dev/zero", "of=" + place, "bs=1M", "count=100"}})
		if r.ExitCode == 0 {
			s.Errorf("100 MB at 32 in %s", place)
		}
		s.alive(b)
		s.shell(b, "rm "+place)
	}
	if r := s.run(b, sandbox.Command{Shell: "mkdir many; cd many; for d in $(seq 100); do mkdir $d; (cd $d; seq 1000 | xargs touch) || exit 1; done"}); r.ExitCode == 0 {
		s.Error("100,000 empty files on a small disk")
	}
	s.alive(b)
}

// cpu: what counts is the share of the time that passed, so that a busy machine
// makes the test pass, never fail.
func cpu(s *suite) {
	if !s.enforced("cpu") {
		return
	}
	const share = 0.2
	b := s.make(sandbox.Spec{Limits: sandbox.Limits{CPUs: share}})
	r := s.run(b, sandbox.Command{Shell: "for i in 1 2 3; do timeout 2 sh -c 'while :; do :; done' & done; wait; times"})
	// The second line is the user and system time of the children: 0m0.392s 0m0.004s
	lines := strings.Split(strings.TrimSpace(string(r.Output)), "\n")
	var used time.Duration
	for _, f := range strings.Fields(lines[len(lines)-1]) {
		d, err := time.ParseDuration(f)
		if err != nil {
			s.Fatalf("times gave %q", r.Output)
		}
		used += d
	}
	if most := time.Duration(share*float64(r.Took)) + 300*time.Millisecond; used > most || used == 0 {
		s.Errorf("%s of CPU time in %s at a share of %v", used, r.Took, share)
	}
}

// fairness: a sandbox that takes all it can leaves another one its share. Both count
// at the same time, so that a busy machine slows both.
func fairness(s *suite) {
	if !s.enforced("cpu") {
		return
	}
	const count = `timeout 2 sh -c 'i=0; trap "echo \$i; exit 0" TERM; while :; do i=$((i+1)); done'`
	limits := sandbox.Limits{CPUs: 0.5}
	hog, victim := s.make(sandbox.Spec{Name: "hog", Limits: limits}), s.make(sandbox.Spec{Name: "victim", Limits: limits})
	counted := make(chan int, 1)
	go func() {
		// Sessions of their own, as the kernel's scheduler may go by those too.
		r, err := hog.Exec(s.ctx, sandbox.Command{Shell: "for i in 1 2 3 4 5 6 7 8; do setsid " + count + " & done; wait"})
		if err != nil {
			s.Errorf("the hog: %v", err)
		}
		counted <- sum(r.Output)
	}()
	got := sum(s.run(victim, sandbox.Command{Shell: count + "; true"}).Output)
	// Equal shares give a ratio near 1; eight against one without shares near 8.
	if took := <-counted; got == 0 || took > 4*got {
		s.Errorf("the victim counted to %d while the hog counted to %d", got, took)
	}
}

// sum adds up the numbers of an output.
func sum(b []byte) int {
	all := 0
	for _, f := range strings.Fields(string(b)) {
		if n, err := strconv.Atoi(f); err == nil {
			all += n
		}
	}
	return all
}
