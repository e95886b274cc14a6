package intake

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// TestMain is also the process that the test below kills: it tells of each row.
func TestMain(m *testing.M) {
	dir, out := os.Getenv("INTAKE_SOURCE"), os.Getenv("INTAKE_OUT")
	if dir == "" {
		os.Exit(m.Run())
	}
	_, err := Run(context.Background(), Options{Sources: []string{dir}, Out: out, Every: 5 * time.Millisecond, Each: func(Progress) { fmt.Println("row") }})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// Killed again and again, a bit later each time, an import ends with the file of one
// that was left alone.
func TestKilled(t *testing.T) {
	dir, rows := mixed(t)
	whole := filepath.Join(t.TempDir(), "whole.jsonl.zst")
	want, err := Run(t.Context(), Options{Sources: []string{dir}, Out: whole})
	if err != nil {
		t.Fatal(err)
	}
	out := filepath.Join(t.TempDir(), "r.jsonl.zst")
	for kill := 5; ; kill += 37 {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), "INTAKE_SOURCE="+dir, "INTAKE_OUT="+out)
		cmd.Stderr = os.Stderr
		pipe, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		told := bufio.NewScanner(pipe)
		for n := 0; n < kill && told.Scan(); n++ {
		}
		if kill < rows {
			cmd.Process.Kill()
		}
		for told.Scan() {
		}
		err = cmd.Wait()
		if _, serr := os.Stat(out); serr == nil {
			break
		}
		if kill >= rows {
			t.Fatal(err)
		}
	}
	a, b := content(t, whole), content(t, out)
	if a != b {
		t.Errorf("%d bytes of records, want %d", len(b), len(a))
	}
	if want.Records != 240 {
		t.Errorf("%+v", want)
	}
}

// content is a records file as one text.
func content(t *testing.T, path string) string {
	t.Helper()
	plain := filepath.Join(t.TempDir(), "plain.jsonl")
	if _, err := Run(t.Context(), Options{Sources: []string{path}, Out: plain}); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(plain)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
