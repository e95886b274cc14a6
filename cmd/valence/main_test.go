package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/valence-rl/valence/core/sandbox/local"
)

func TestMain(m *testing.M) {
	local.Init()
	testscript.Main(m, map[string]func(){"valence": main})
}

// TestScripts runs the command as a user does; a script holds its input and the
// expected output. Set UPDATE_SCRIPTS=1 to accept the output that there is.
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		UpdateScripts:       os.Getenv("UPDATE_SCRIPTS") != "",
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Setup: func(e *testscript.Env) error {
			for _, dir := range filepath.SplitList(e.Getenv("PATH")) {
				if p := filepath.Join(dir, "valence"); fileExists(p) {
					e.Setenv("VALENCE", p) // for scripts that change PATH
				}
			}
			e.Setenv("REPO", repository(t))
			e.Values["registry"] = new(running)
			return keepCaches(e)
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"exits":    exits,
			"registry": serveRegistry,
			"image":    pushImage,
			"testbed":  pushTestbed,
			"module":   writeModule,
			"key":      writeKey,
			"flip":     flipBit,
		},
	})
}

// keepCaches lets scripts find the modules and the plugins that are built already;
// their home folder is none.
func keepCaches(e *testscript.Env) error {
	cache, err := os.UserCacheDir()
	if err != nil {
		return err
	}
	e.Setenv("XDG_CACHE_HOME", cache)
	out, err := exec.Command("go", "env", "-json", "GOROOT", "GOCACHE", "GOMODCACHE", "GOPROXY", "GOFLAGS", "GOTOOLCHAIN").Output()
	if err != nil {
		return fmt.Errorf("go env: %w", err)
	}
	var vars map[string]string
	if err := json.Unmarshal(out, &vars); err != nil {
		return err
	}
	for k, v := range vars {
		e.Setenv(k, v)
	}
	return nil
}

func fileExists(p string) bool {
	_, err := os.Stat(p)
	return err == nil
}

// exits runs a command and compares its exit code: exits 10 valence config check.
func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits CODE COMMAND ARGS…")
	}
	err := ts.Exec(args[1], args[2:]...)
	got := "0"
	if err != nil {
		got = err.Error()
		if s := "exit status "; len(got) > len(s) && got[:len(s)] == s {
			got = got[len(s):]
		}
	}
	if got != args[0] {
		ts.Fatalf("exit code %s, want %s", got, args[0])
	}
}
