package local

import (
	"bufio"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/valence-rl/valence/core/sandbox"
	"github.com/valence-rl/valence/core/sandbox/image"
	"github.com/valence-rl/valence/core/sandbox/image/imagetest"
)

// hostDir, in the environment, makes this test binary a host with sandboxes that
// waits to be killed.
const (
	hostDir  = "VALENCE_TEST_HOST"
	hostMark = "VALENCE_TEST_MARK"
	// What kind of sandboxes it makes.
	hostUpper = "VALENCE_TEST_UPPER"
	hostBare  = "VALENCE_TEST_BARE"
	// How many of them.
	hostCount = "VALENCE_TEST_COUNT"
	hostImage = "VALENCE_TEST_IMAGE"
	hostStore = "VALENCE_TEST_STORE"
)

// host makes a few sandboxes with work in the background, prints the number of
// each one's first process and then "ready".
func host(dir string) {
	fail := func(err error) {
		if err != nil {
			fmt.Println("host:", err)
			os.Exit(1)
		}
	}
	o := Options{Dir: dir, Upper: Upper(os.Getenv(hostUpper))}
	if os.Getenv(hostBare) != "" {
		o.Bare, o.refused.namespaces = true, true
	}
	if o.Image = os.Getenv(hostImage); o.Image != "" {
		o.Images = storeIn(os.Getenv(hostStore), image.Options{})
	}
	d, err := New(o)
	fail(err)
	ctx := context.Background()
	count, err := strconv.Atoi(os.Getenv(hostCount))
	fail(err)
	for range count {
		s, err := d.Create(ctx, sandbox.Spec{Workspace: benchWorkspace, Env: []string{hostMark + "=" + os.Getenv(hostMark)}})
		fail(err)
		_, err = s.Exec(ctx, sandbox.Command{Shell: "(setsid sh -c 'trap \"\" TERM HUP INT; while :; do sleep 1000; done' &) ; sleep 1000 & echo x > file"})
		fail(err)
		fmt.Println(s.(*box).process.pid)
		go s.Exec(ctx, sandbox.Command{Shell: "sleep 1000"})
	}
	fmt.Println("ready")
	io.Copy(io.Discard, os.Stdin)
}

// marked lists the processes that have text in their environment, apart from those of not.
func marked(t *testing.T, text string, not int) []string {
	t.Helper()
	all, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, p := range all {
		if p == fmt.Sprintf("/proc/%d", not) {
			continue
		}
		if b, err := os.ReadFile(p + "/environ"); err == nil && strings.Contains(string(b), text) {
			out = append(out, p)
		}
	}
	return out
}

// mounts lists those of the machine that look like a sandbox's. Others come and go.
func mounts(t *testing.T) string {
	t.Helper()
	var out strings.Builder
	for line := range strings.Lines(readFile(t, "/proc/self/mounts")) {
		if f := strings.Fields(line); f[0] == "scratch" || f[0] == "workspace" || f[0] == "image" || strings.Contains(f[1], statePrefix) {
			out.WriteString(line)
		}
	}
	return out.String()
}

// When the host is killed so that it can do nothing about it, its sandboxes must
// go with it, and the next driver must clear its files and control groups away.
func TestKilledHost(t *testing.T) {
	for name, c := range map[string]struct {
		count   int
		options Options
	}{
		"memory": {3, Options{}}, "disk": {3, Options{Upper: UpperDisk}}, "bare": {3, Options{Bare: true, refused: refused{namespaces: true}}},
		"image": {3, Options{Image: imagetest.Save(t, imagetest.Suite(t))}},
		"many":  {64, Options{}},
	} {
		t.Run(name, func(t *testing.T) { killHost(t, c.options, c.count) })
	}
}

func killHost(t *testing.T, o Options, count int) {
	dir, mark, before := t.TempDir(), "mark-"+rand.Text(), mounts(t)
	if err := os.Chmod(filepath.Dir(dir), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("TMPDIR", dir)
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), hostDir+"="+dir, hostMark+"="+mark, hostUpper+"="+string(o.Upper), hostCount+"="+strconv.Itoa(count))
	if o.Bare {
		cmd.Env = append(cmd.Env, hostBare+"=1")
	}
	store := t.TempDir()
	cmd.Env = append(cmd.Env, hostImage+"="+o.Image, hostStore+"="+store)
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	defer stdin.Close()
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	name, err := processName(cmd.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	var ends []unix.PollFd
	lines := bufio.NewScanner(out)
	for lines.Scan() && lines.Text() != "ready" {
		pid, err := strconv.Atoi(lines.Text())
		if err != nil {
			t.Fatal(lines.Text())
		}
		fd, err := unix.PidfdOpen(pid, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer unix.Close(fd)
		ends = append(ends, unix.PollFd{Fd: int32(fd), Events: unix.POLLIN})
	}
	if len(ends) != count {
		t.Fatalf("the host made %d sandboxes", len(ends))
	}
	if n := len(marked(t, mark, cmd.Process.Pid)); n < 2*count {
		t.Fatalf("only %d processes found of the sandboxes; looking for them proves nothing", n)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	var exit *exec.ExitError
	if err := cmd.Wait(); !errors.As(err, &exit) || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
		t.Fatalf("the host ended by itself: %v", err)
	}
	for i := range ends {
		// The first process of a pid namespace ends when all others are gone.
		if _, err := unix.Ppoll(ends[i:i+1], &unix.Timespec{Sec: 30}, nil); err != nil || ends[i].Revents == 0 {
			t.Fatalf("a sandbox outlived its host: %v", err)
		}
	}
	left := marked(t, mark, 0)
	// Those of a bare sandbox have been killed, but others wait for them.
	for end := time.Now().Add(30 * time.Second); o.Bare && len(left) > 0 && time.Now().Before(end); {
		left = marked(t, mark, 0)
	}
	if len(left) > 0 {
		t.Errorf("processes left: %v", left)
	}
	if after := mounts(t); after != before {
		t.Errorf("the mounts have changed:\n%s\nwere:\n%s", after, before)
	}
	if !dead(name) {
		t.Errorf("%s does not count as dead", name)
	}

	o.Dir = dir
	if o.Image != "" {
		// What the host had of the store is free for others to remove.
		o.Images = storeIn(store, image.Options{Size: 1})
		empty, err := o.Images()
		if err == nil {
			err = empty.Collect(t.Context())
		}
		if err != nil {
			t.Error(err)
		}
		for _, what := range []string{"layers", "images", "leases", "tmp"} {
			if left, err := filepath.Glob(filepath.Join(store, "*", what, "*")); err != nil || len(left) > 0 {
				t.Errorf("in the store: %v, %v", left, err)
			}
		}
	}
	d, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	files, err := os.ReadDir(filepath.Dir(d.state.dir))
	if err != nil || len(files) != 1 || files[0].Name() != filepath.Base(d.state.dir) {
		t.Errorf("in the driver's directory: %v, %v", files, err)
	}
	if d.groups == nil {
		return
	}
	for _, f := range d.groups.folders() {
		groups, err := filepath.Glob(filepath.Join(f, name+".*"))
		if err != nil || len(groups) > 0 {
			t.Errorf("control groups left: %v, %v", groups, err)
		}
	}
}

// Nothing must be left after Close either.
func TestNothingLeft(t *testing.T) {
	dir, mark, before := t.TempDir(), "mark-"+rand.Text(), mounts(t)
	d, err := New(Options{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		s, err := d.Create(t.Context(), sandbox.Spec{Workspace: benchWorkspace, Env: []string{hostMark + "=" + mark}})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.Exec(t.Context(), sandbox.Command{Shell: "(setsid sleep 1000 &) ; sleep 1000 &"}); err != nil {
			t.Fatal(err)
		}
	}
	if len(marked(t, mark, 0)) < 6 {
		t.Fatal("the processes of the sandboxes were not found")
	}
	groups := d.groups
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	if left := marked(t, mark, 0); len(left) > 0 {
		t.Errorf("processes left: %v", left)
	}
	if after := mounts(t); after != before {
		t.Errorf("the mounts have changed:\n%s\nwere:\n%s", after, before)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("files left: %v, %v", left, err)
	}
	if groups != nil {
		for _, f := range groups.folders() {
			if left, err := filepath.Glob(filepath.Join(f, groups.host+".*")); err != nil || len(left) > 0 {
				t.Errorf("control groups left: %v, %v", left, err)
			}
		}
	}
}

// again runs tests of this binary in another process, from a copy with mode.
func again(t *testing.T, mode os.FileMode, sys *syscall.SysProcAttr, tests string, env ...string) {
	t.Helper()
	dir := t.TempDir()
	// The temporary directory's own parent is private to this user.
	if err := os.Chmod(filepath.Dir(dir), 0o755); err != nil {
		t.Fatal(err)
	}
	self, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	program, temp := filepath.Join(dir, "local.test"), filepath.Join(dir, "tmp")
	if err := errors.Join(os.WriteFile(program, self, mode), os.Chmod(program, mode), os.Mkdir(temp, 0o777), os.Chmod(temp, 0o777)); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), program, "-test.v", "-test.parallel=4", "-test.run", tests)
	cmd.Dir = temp
	cmd.Env = append([]string{"PATH=" + standardPath, "HOME=" + temp, "TMPDIR=" + temp}, env...)
	cmd.SysProcAttr = sys
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if !strings.Contains(string(out), "--- PASS") {
		t.Fatalf("nothing was run:\n%s", out)
	}
}

// nobody is the user without rights.
const nobody = 65534

// TestOrdinaryUser runs the suite without any right, if this run has them all;
// otherwise TestConformance has done just that.
func TestOrdinaryUser(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		return
	}
	tests := "."
	if testing.Short() {
		tests = "^TestConformance$"
	}
	again(t, 0o755, &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}, tests, wantLevel+"=namespaces-unprivileged")
}

// A program that is readable by its owner alone starts from a copy.
func TestPrivateProgram(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		return
	}
	again(t, 0o700, nil, "^TestConformance$/^(Lifecycle|Exec|Kernel)$", wantLevel+"=namespaces")
}

// coverProc, in the environment, makes a test run cover a part of its /proc first,
// as containers do. It then has a mount namespace of its own.
const coverProc = "VALENCE_TEST_COVER"

func hideProc() {
	err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, "")
	if err == nil {
		err = unix.Mount("covered", "/proc/irq", "tmpfs", unix.MS_RDONLY, "")
	}
	if err != nil {
		fmt.Println("cover /proc:", err)
		os.Exit(1)
	}
}

// Where no fresh /proc may be mounted sandboxes still work, and it is reported.
func TestCoveredProc(t *testing.T) {
	t.Parallel()
	if os.Getenv(coverProc) != "" {
		if missing := newDriver(t).Isolation().Missing; !slices.ContainsFunc(missing, func(m string) bool { return strings.HasPrefix(m, "processes:") }) {
			t.Errorf("not reported: %v", missing)
		}
		return
	}
	if os.Geteuid() != 0 {
		return
	}
	again(t, 0o755, &syscall.SysProcAttr{Unshareflags: unix.CLONE_NEWNS}, "^TestCoveredProc$|^TestConformance$/^(Lifecycle|Exec|Output|Files|Diff|Network|Descriptors|Disk)$", coverProc+"=1")
}
