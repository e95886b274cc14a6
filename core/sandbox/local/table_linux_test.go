package local

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"syscall"
	"testing"

	"github.com/valence-rl/valence/core/sandbox"
	"github.com/valence-rl/valence/core/sandbox/sandboxtest"
)

// isolationFile, in the environment, is where a test run writes what its user's driver
// says of itself.
const isolationFile = "VALENCE_TEST_ISOLATION"

// ordinary is what a driver of a user without rights says of itself.
func ordinary(t *testing.T) (i sandbox.Isolation) {
	t.Helper()
	dir := t.TempDir()
	if err := errors.Join(os.Chmod(filepath.Dir(dir), 0o755), os.Chmod(dir, 0o777)); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "isolation.json")
	again(t, 0o755, &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}, "^TestTable$", isolationFile+"="+file, wantLevel+"="+sandbox.LevelUnprivileged)
	if err := json.Unmarshal([]byte(readFile(t, file)), &i); err != nil {
		t.Fatal(err)
	}
	for n, m := range i.Missing {
		i.Missing[n] = groupFolders.ReplaceAllString(m, "")
	}
	return i
}

// groupFolders are names of folders in a reason, which differ from run to run.
var groupFolders = regexp.MustCompile(`mkdir /sys/fs/cgroup/\S+: `)

// The page on sandboxes says of each level what the driver says of itself.
func TestTable(t *testing.T) {
	if file := os.Getenv(isolationFile); file != "" {
		d := openDriver(t)
		defer d.Close()
		b, err := json.Marshal(d.Isolation())
		if err := errors.Join(err, os.WriteFile(file, b, 0o644)); err != nil {
			t.Fatal(err)
		}
		return
	}
	if os.Geteuid() != 0 || mountedGroups().legacy["memory"] == "" && mountedGroups().unified == "" {
		t.Log("the table is about a machine with control groups and root; nothing was compared")
		return
	}
	levels := map[string]sandbox.Isolation{"ordinary user": ordinary(t)}
	for name, o := range map[string]Options{
		"namespaces": {}, "no fresh /proc": {refused: refused{procfs: true}}, "no control groups": {refused: refused{groups: true}},
		"disk": {Upper: UpperDisk}, "bare": {Bare: true, refused: refused{namespaces: true}},
	} {
		d := opener(o)(t)
		levels[name] = d.Isolation()
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	}
	sandboxtest.Table(t, "../../../docs/sandbox.md", levels)
}
