package sandboxtest

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/google/go-cmp/cmp"

	"github.com/valence-rl/valence/core/diag"
	"github.com/valence-rl/valence/core/hostile"
	"github.com/valence-rl/valence/core/sandbox"
	"github.com/valence-rl/valence/sdk"
)

func (s *suite) wantFile(b sandbox.Sandbox, name, want string) {
	s.Helper()
	if got, err := b.Read(s.ctx, name, 0); err != nil || string(got) != want {
		s.Errorf("%s: got %q, %v; want %q", name, clip(got), err, want)
	}
}

func files(s *suite) {
	b := s.plain()
	s.wantFile(b, "README.md", "hello\n")
	s.wantFile(b, "/workspace/pkg/deep/er/mod.py", "x = 1\n")
	s.wantFile(b, "pkg/../README.md", "hello\n")
	s.wantFile(b, "pkg/__init__.py", "")
	for _, name := range []string{"nothing", "nowhere/nothing", "/nothing"} {
		if _, err := b.Read(s.ctx, name, 0); !errors.Is(err, fs.ErrNotExist) {
			s.Errorf("%s: %v", name, err)
		}
	}
	for _, name := range []string{"pkg", "README.md/x", "/dev/zero"} {
		if _, err := b.Read(s.ctx, name, 0); err == nil || errors.Is(err, fs.ErrNotExist) || diag.KindOf(err) == diag.KindSandbox {
			s.Errorf("%s: %v", name, err)
		}
	}
	if _, err := b.Read(s.ctx, "README.md", 5); !errors.Is(err, sandbox.ErrTooLarge) {
		s.Errorf("a file over the limit: %v", err)
	}
	if got, err := b.Read(s.ctx, "README.md", 6); err != nil || string(got) != "hello\n" {
		s.Errorf("a file of exactly the limit: %q, %v", got, err)
	}
	binary := make([]byte, 3<<20)
	for i := range binary {
		binary[i] = byte(i * 7 >> 3)
	}
	s.write(b,
		sdk.Change{Path: "new/dir/bin", Data: binary},
		sdk.Change{Path: "/tmp/outside", Data: []byte("o")},
		sdk.Change{Path: "script", Data: []byte("#!/bin/sh\necho script\n"), Exec: true},
		sdk.Change{Path: "link", Symlink: "README.md"},
		sdk.Change{Path: "README.md", Data: []byte("new\n")},
		sdk.Change{Path: "pkg/deep", Deleted: true},
		sdk.Change{Path: "never/was", Deleted: true},
		sdk.Change{Path: "README.md/neither", Deleted: true},
	)
	if got, err := b.Read(s.ctx, "new/dir/bin", 0); err != nil || !bytes.Equal(got, binary) {
		s.Errorf("a binary file came back changed: %d bytes, %v", len(got), err)
	}
	if out := s.shell(b, "./script; cat link; ls pkg; cat ${TMPDIR:-/tmp}/outside; test ! -x README.md"); out != "script\nnew\n__init__.py\no" {
		s.Errorf("got %q", out)
	}
	// A change says what a path is, whatever it was.
	s.shell(b, "mkdir -p d/e; mkfifo p; ln -s /nowhere dangling; ln -s pkg dirlink; chmod 000 run.sh")
	s.write(b, sdk.Change{Path: "d", Data: []byte("was a directory")}, sdk.Change{Path: "p", Data: []byte("was a pipe")},
		sdk.Change{Path: "dangling", Data: []byte("was a link")}, sdk.Change{Path: "run.sh", Data: []byte("was secret")},
		sdk.Change{Path: "script", Symlink: "run.sh"}, sdk.Change{Path: "dirlink/through", Data: []byte("t")})
	for name, want := range map[string]string{"d": "was a directory", "p": "was a pipe", "dangling": "was a link",
		"run.sh": "was secret", "script": "was secret", "pkg/through": "t"} {
		s.wantFile(b, name, want)
	}
	if err := b.Write(s.ctx, sdk.Change{Path: "pkg", Data: []byte("x")}); err == nil || diag.KindOf(err) == diag.KindSandbox {
		s.Errorf("a file in place of a directory with files: %v", err)
	}
	s.write(b, sdk.Change{Path: "pkg", Data: []byte("now a file")}, sdk.Change{Path: "pkg/__init__.py", Deleted: true}, sdk.Change{Path: "pkg/through", Deleted: true})
	s.wantFile(b, "pkg", "now a file")
}

// binary: no byte of a name, a content, an argument or a variable is changed on its way.
func binary(s *suite) {
	var all []byte
	for i := 1; i < 256; i++ {
		if i != '/' {
			all = append(all, byte(i))
		}
	}
	name, data := string(all[:200]), append([]byte{0}, append(all, 0, '/', 0)...)
	b := s.make(sandbox.Spec{Workspace: sdk.Workspace{Files: []sdk.File{{Path: "data", Data: data}}}})
	s.wantFile(b, "data", string(data))
	if r := s.run(b, sandbox.Command{Args: []string{"cat", "data"}}); !bytes.Equal(r.Output, data) {
		s.Errorf("a file's bytes were changed on their way through stdout: %q", clip(r.Output))
	}
	if r := s.run(b, sandbox.Command{Args: []string{"printf", "%s", string(all)}}); !bytes.Equal(r.Output, all) {
		s.Errorf("an argument's bytes were changed: %q", clip(r.Output))
	}
	if r := s.run(b, sandbox.Command{Args: []string{"sh", "-c", `printf %s "$ALL"`}, Env: []string{"ALL=" + string(all)}}); !bytes.Equal(r.Output, all) {
		s.Errorf("a variable's bytes were changed: %q", clip(r.Output))
	}
	s.write(b, sdk.Change{Path: "dir/" + name, Data: data}, sdk.Change{Path: "link", Symlink: name})
	s.wantFile(b, "dir/"+name, string(data))
	if r := s.run(b, sandbox.Command{Args: []string{"cmp", "data", "dir/" + name}}); r.ExitCode != 0 {
		s.Errorf("a file that was written differs: %s", clip(r.Output))
	}
	s.wantDiff(b, sdk.Change{Path: "dir/" + name, Data: data}, sdk.Change{Path: "link", Symlink: name})
}

// fileAttacks: commands lay traps for the host's file requests.
func fileAttacks(s *suite) {
	dir := s.TempDir()
	secret := filepath.Join(dir, "secret")
	if err := os.WriteFile(secret, []byte("the host's"), 0o644); err != nil {
		s.Fatal(err)
	}
	b := s.plain()
	s.shell(b, fmt.Sprintf(`
		ln -s %[1]s abs; ln -s ../../../../../../../../..%[1]s rel; ln -s %[2]s dir; ln -s / root; ln -s /proc/1/root proot
		ln -s /proc/1/cwd pcwd; ln -s /proc/self/exe exe; ln -s /proc/1/exe exe1; ln -s loop loop; mkfifo pipe; ln %[1]s hard; ln /etc/passwd hard2
		for i in $(seq 0 20); do ln -s /proc/self/fd/$i self$i; ln -s /proc/1/fd/$i one$i; done`, secret, dir))
	names := []string{"abs", "rel", "dir/secret", "root" + secret, "proot" + secret, "pcwd" + secret, "root/../.." + secret, secret,
		"/../../../.." + secret, "loop", "pipe", "hard", "exe", "exe1", "/proc/1/environ", "/proc/self/environ", "/proc/1/mem"}
	if s.contained("tool chain") {
		names = append(names, "hard2") // an image's own file is nobody's secret
	}
	for i := range 21 {
		names = append(names, fmt.Sprintf("self%d", i), fmt.Sprintf("one%d", i), fmt.Sprintf("self%d/README.md", i), fmt.Sprintf("one%d/mod.py", i))
	}
	for _, name := range names {
		if got, err := b.Read(s.ctx, name, 0); err == nil {
			s.Errorf("%s: read %q", name, clip(got))
		} else if diag.KindOf(err) == diag.KindSandbox {
			s.Errorf("%s: killed the sandbox: %v", name, err)
		}
	}
	for _, name := range []string{"abs", "dir/secret", "dir/new", "root" + dir + "/new", "proot" + dir + "/new", "/../.." + dir + "/new"} {
		b.Write(s.ctx, sdk.Change{Path: name, Data: []byte("taken")})
		b.Write(s.ctx, sdk.Change{Path: name, Deleted: true})
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 1 {
		s.Errorf("the host's directory has changed: %v, %v", entries, err)
	}
	if got, err := os.ReadFile(secret); err != nil || string(got) != "the host's" {
		s.Errorf("the host's file has changed: %q, %v", got, err)
	}
	s.alive(b)
}

func (s *suite) wantDiff(b sandbox.Sandbox, want ...sdk.Change) {
	s.Helper()
	got := s.diff(b)
	if len(got) == 0 && len(want) == 0 {
		return
	}
	if d := cmp.Diff(want, got); d != "" {
		s.Errorf("want -, got +:\n%s", d)
	}
}

func diff(s *suite) {
	b := s.plain()
	s.wantDiff(b)
	s.shell(b, `
		echo more >> README.md; rm vendor/lib/code.c; chmod -x run.sh
		mkdir -p new/empty new/full; printf '\000\377' > new/full/bin; printf x > 'odd name
"é'; ln -s ../README.md new/link; touch pkg/__init__.py; cp pkg/deep/other.py ~/o; cp ~/o pkg/deep/other.py; echo out > ~/elsewhere
		printf '#!' > tool; chmod 700 tool`)
	s.wantDiff(b,
		sdk.Change{Path: "README.md", Data: []byte("hello\nmore\n")},
		sdk.Change{Path: "new/full/bin", Data: []byte("\x00\xff")},
		sdk.Change{Path: "new/link", Symlink: "../README.md"},
		sdk.Change{Path: "odd name\n\"é", Data: []byte("x")},
		sdk.Change{Path: "run.sh", Data: []byte("#!/bin/sh\necho ran \"$@\"\n")},
		sdk.Change{Path: "tool", Data: []byte("#!"), Exec: true},
		sdk.Change{Path: "vendor/lib/code.c", Deleted: true},
	)
	// Undone is as if never done.
	s.shell(b, "rm -r new odd* tool; echo hello > README.md; chmod +x run.sh; echo 'int x;' > vendor/lib/code.c")
	s.wantDiff(b)
	// What the host writes counts as well, and a diff applied elsewhere gives the same diff.
	s.write(b, sdk.Change{Path: "pkg/deep/er/mod.py", Data: []byte("x = 2\n")}, sdk.Change{Path: "pkg/deep/other.py", Deleted: true})
	s.shell(b, "rm -r vendor; ln -s pkg vendor; mv pkg/deep moved")
	changes := s.diff(b)
	again := s.plain()
	s.write(again, changes...)
	s.wantDiff(again, changes...)
}

// diffReplacements: one kind of thing in the place of another.
func diffReplacements(s *suite) {
	gone := func(p string) sdk.Change { return sdk.Change{Path: p, Deleted: true} }
	for _, c := range []struct {
		name, line string
		want       []sdk.Change
	}{
		{"a directory removed", "rm -r pkg", []sdk.Change{gone("pkg/__init__.py"), gone("pkg/deep/er/mod.py"), gone("pkg/deep/other.py")}},
		{"a directory made anew", "rm -r pkg; mkdir -p pkg/deep; echo z > pkg/deep/z", []sdk.Change{
			gone("pkg/__init__.py"), gone("pkg/deep/er/mod.py"), gone("pkg/deep/other.py"), {Path: "pkg/deep/z", Data: []byte("z\n")}}},
		{"a directory made anew with a file as it was", "rm -r pkg; mkdir -p pkg/deep; echo 'y = 1' > pkg/deep/other.py", []sdk.Change{
			gone("pkg/__init__.py"), gone("pkg/deep/er/mod.py")}},
		{"a file for a directory", "rm -r pkg; echo f > pkg", []sdk.Change{
			{Path: "pkg", Data: []byte("f\n")}, gone("pkg/__init__.py"), gone("pkg/deep/er/mod.py"), gone("pkg/deep/other.py")}},
		{"a directory for a file", "rm README.md; mkdir README.md; echo f > README.md/f", []sdk.Change{
			gone("README.md"), {Path: "README.md/f", Data: []byte("f\n")}}},
		{"a link for a file", "ln -sf run.sh README.md", []sdk.Change{{Path: "README.md", Symlink: "run.sh"}}},
		{"a link for a directory", "rm -r pkg/deep; ln -s /etc pkg/deep", []sdk.Change{
			{Path: "pkg/deep", Symlink: "/etc"}, gone("pkg/deep/er/mod.py"), gone("pkg/deep/other.py")}},
		{"a pipe for a file", "rm README.md; mkfifo README.md new", []sdk.Change{gone("README.md")}},
		{"a renamed directory", "mv pkg/deep deep", []sdk.Change{
			{Path: "deep/er/mod.py", Data: []byte("x = 1\n")}, {Path: "deep/other.py", Data: []byte("y = 1\n")},
			gone("pkg/deep/er/mod.py"), gone("pkg/deep/other.py")}},
		{"a file renamed onto another", "mv pkg/deep/other.py README.md", []sdk.Change{
			{Path: "README.md", Data: []byte("y = 1\n")}, gone("pkg/deep/other.py")}},
		{"only times and directories", "touch README.md; mkdir a; chmod 700 pkg", nil},
	} {
		b := s.plain()
		s.shell(b, c.line)
		got := s.diff(b)
		if len(got) != 0 || len(c.want) != 0 {
			if d := cmp.Diff(c.want, got); d != "" {
				s.Errorf("%s: want -, got +:\n%s", c.name, d)
			}
		}
		// The same changes on a fresh workspace must give the same tree.
		again := s.plain()
		s.write(again, got...)
		if d := cmp.Diff(got, s.diff(again)); d != "" && len(got) > 0 {
			s.Errorf("%s, applied again: want -, got +:\n%s", c.name, d)
		}
		b.Close()
		again.Close()
	}
}

func diffAttacks(s *suite) {
	b := s.plain()
	s.shell(b, `ln -s /etc/passwd passwd; ln -s / root; mkdir closed; echo c > closed/f; chmod 000 closed/f closed; ln -s /proc/1/fd fds`)
	if !s.contained("closed") {
		s.shell(b, "chmod 700 closed; chmod 600 closed/f")
	}
	s.wantDiff(b,
		sdk.Change{Path: "closed/f", Data: []byte("c\n")},
		sdk.Change{Path: "fds", Symlink: "/proc/1/fd"},
		sdk.Change{Path: "passwd", Symlink: "/etc/passwd"},
		sdk.Change{Path: "root", Symlink: "/"},
	)
	s.shell(b, "head -c 3000000 /dev/zero > big")
	if _, err := b.Diff(s.ctx, 1<<20); !errors.Is(err, sandbox.ErrTooLarge) {
		s.Errorf("contents over the limit: %v", err)
	}
	s.shell(b, "rm big; mkdir many; cd many; seq 20000 | xargs touch")
	if _, err := b.Diff(s.ctx, 1<<20); !errors.Is(err, sandbox.ErrTooLarge) {
		s.Errorf("empty files over the limit: %v", err)
	}
	// A tree that changes while it is read.
	s.shell(b, "rm -r many; while :; do mkdir -p t/a; echo 1 > t/a/f; ln -sfn /etc t/l; mv t u; rm -r u; done > /dev/null 2>&1 &")
	for range 50 {
		if _, err := b.Diff(s.ctx, 0); diag.KindOf(err) == diag.KindSandbox {
			s.Fatalf("a changing tree: %v", err)
		}
	}
	s.alive(b)
}

// diffHostile: whatever an agent leaves is seen as it is, and comes about again where it
// is written.
func diffHostile(s *suite) {
	script, want := hostile.Script()
	b := s.make(sandbox.Spec{})
	s.shell(b, script)
	s.wantDiff(b, want...)
	again := s.make(sandbox.Spec{})
	s.write(again, want...)
	s.wantDiff(again, want...)
	s.alive(b)
}

func workspace(s *suite) {
	w := sdk.Workspace{Dir: "/testbed/app", Files: tree(), Patches: []string{
		"--- a/README.md\n+++ b/README.md\n@@ -1 +1 @@\n-hello\n+patched\n",
		"--- a/README.md\n+++ b/README.md\n@@ -1 +1 @@\n-patched\n+twice\n",
	}}
	b := s.make(sandbox.Spec{Workspace: w})
	if out := s.shell(b, "cat README.md; find . -name .git | wc -l; ./run.sh"); out != "twice\n0\nran\n" {
		s.Errorf("got %q", out)
	}
	if out := s.shell(b, "pwd"); s.contained("paths") && out != "/testbed/app\n" {
		s.Errorf("the workspace is at %q", out)
	}
	s.wantFile(b, "/testbed/app/README.md", "twice\n")
	s.wantFile(b, "README.md", "twice\n")
	s.wantDiff(b)
	// Owner and mode must let commands do as they like.
	s.shell(b, "echo x > README.md && rm -r vendor pkg && echo y > new && chmod 700 run.sh")
	if s.contained("root") {
		s.shell(b, "chown 0:0 run.sh && stat -c %U . | grep -x root")
	}
	// Nothing of one sandbox reaches another of the same content.
	if out := s.shell(s.make(sandbox.Spec{Workspace: w}), "cat README.md; ls"); out != "twice\nREADME.md\npkg\nrun.sh\nvendor\n" {
		s.Errorf("got %q", out)
	}
	empty := s.make(sandbox.Spec{})
	if out := s.shell(empty, "ls -A"); out != "" {
		s.Errorf("got %q", out)
	}
}
