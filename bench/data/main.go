// Command data measures how fast rows become records and how fast records are compared
// with what is measured, and the most memory that either takes, beside what a user would
// write in Python: json alone, pandas, pyarrow, datasets, as far as the Python given has
// them. Rows are synthetic, of the size of SWE-bench's; every program reads the same
// file and writes its rows with the columns that a record needs.
//
//	go run ./bench/data -valence bin/valence -python python3 -rows 100000
package main

import (
	"bufio"
	_ "embed"
	"flag"
	"fmt"
	"log"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

//go:embed peers.py
var peers string

func main() {
	rows := flag.Int("rows", 100_000, "rows of the largest file")
	valence := flag.String("valence", "bin/valence", "the program")
	python := flag.String("python", "python3", "a Python, best with pandas, pyarrow and datasets")
	flag.Parse()
	dir, err := os.MkdirTemp("", "bench-data-*")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	b := &bench{dir: dir, python: *python}
	b.python, _ = exec.LookPath(*python)
	program, err := filepath.Abs(*valence)
	if err != nil {
		log.Fatal(err)
	}
	script := filepath.Join(dir, "peers.py")
	if err := os.WriteFile(script, []byte(peers), 0o644); err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%-44s %9s %9s %9s %9s\n", "", "seconds", "cpu s", "MB/s", "peak MB")
	for _, n := range []int{*rows / 4, *rows} {
		file := filepath.Join(dir, fmt.Sprintf("rows-%d.jsonl", n))
		if err := write(file, n); err != nil {
			log.Fatal(err)
		}
		out := filepath.Join(dir, "records.jsonl")
		b.run(file, fmt.Sprintf("%d rows: valence data import", n), program, "data", "import", file, "--out", out, "--progress", "none")
		b.run(out, fmt.Sprintf("%d records: valence data decontaminate", n), program, "data", "decontaminate", out, "--out", out+".clean", "--progress", "none")
		os.Remove(out)
		os.Remove(out + ".clean")
		for _, peer := range []string{"json", "pandas", "datasets"} {
			b.run(file, fmt.Sprintf("%d rows: python, %s", n, peer), b.python, script, peer, file, filepath.Join(dir, "peer.jsonl"))
		}
		parquet := filepath.Join(dir, fmt.Sprintf("rows-%d.parquet", n))
		if b.run(file, fmt.Sprintf("%d rows: python makes a Parquet file", n), b.python, script, "make", file, parquet) {
			b.run(file, fmt.Sprintf("%d rows of Parquet: valence data import", n), program, "data", "import", parquet, "--out", out, "--progress", "none")
			os.Remove(out)
			b.run(file, fmt.Sprintf("%d rows of Parquet: python, pyarrow", n), b.python, script, "pyarrow", parquet, filepath.Join(dir, "peer.jsonl"))
		}
		os.Remove(file)
		os.Remove(parquet)
	}
}

type bench struct{ dir, python string }

// run runs a program and prints what it took; size is that of the rows as JSON lines.
func (b *bench) run(file, what string, args ...string) bool {
	info, err := os.Stat(file)
	if err != nil {
		log.Fatal(err)
	}
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Env = append(os.Environ(), "HF_HOME="+filepath.Join(b.dir, "hf"), "HF_DATASETS_OFFLINE=1", "HF_HUB_OFFLINE=1")
	start := time.Now()
	out, err := cmd.CombinedOutput()
	took := time.Since(start).Seconds()
	os.RemoveAll(filepath.Join(b.dir, "hf"))
	if err != nil {
		lines := strings.Split(strings.TrimSpace(string(out)), "\n")
		fmt.Printf("%-44s not measured: %s\n", what, lines[len(lines)-1])
		return false
	}
	u := cmd.ProcessState.SysUsage().(*syscall.Rusage)
	cpu := cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	fmt.Printf("%-44s %9.1f %9.1f %9.0f %9.0f\n", what, took, cpu.Seconds(), float64(info.Size())/1e6/took, float64(u.Maxrss)/1e3)
	return true
}

// write makes a file of rows: a fifth of them of repositories that are measured.
func write(path string, n int) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer f.Close()
	w := bufio.NewWriterSize(f, 1<<20)
	r := rand.New(rand.NewPCG(1, 2))
	words := make([]string, 2000)
	for i := range words {
		words[i] = fmt.Sprintf("w%x", r.Uint32())
	}
	text := func(n int) string {
		var b strings.Builder
		for range n {
			b.WriteString(words[r.IntN(len(words))])
			b.WriteByte(' ')
		}
		return b.String()
	}
	for i := range n {
		repo := fmt.Sprintf("acme/shop%d", r.IntN(500))
		if i%5 == 0 {
			repo = "django/django"
		}
		diff := func(path string, lines int) string {
			var b strings.Builder
			fmt.Fprintf(&b, `diff --git a/%s b/%s\n--- a/%s\n+++ b/%s\n@@ -1,%d +1,%d @@\n`, path, path, path, path, lines+1, lines+1)
			fmt.Fprintf(&b, `-%s\n+%s\n`, text(6), text(6))
			for range lines {
				b.WriteString(` \t` + text(8) + `\n`)
			}
			return b.String()
		}
		tests := func(n int) string {
			var out []string
			for k := range n {
				out = append(out, fmt.Sprintf(`\"tests/test_%d.py::Test::test_%d\"`, r.IntN(9), k))
			}
			return "[" + strings.Join(out, ", ") + "]"
		}
		fmt.Fprintf(w, `{"repo": %q, "instance_id": "row-%d", "base_commit": "%040x", "patch": "%s", "test_patch": "%s", "problem_statement": "%s", "hints_text": "%s", "created_at": "2024-01-01T00:00:00Z", "version": "1.0", "FAIL_TO_PASS": "%s", "PASS_TO_PASS": "%s", "environment_setup_commit": "%040x"}`+"\n",
			repo, i, i, diff("src/a.py", 8), diff("tests/test_a.py", 12), text(120)+`\n`, text(20), tests(2), tests(30), i)
	}
	return w.Flush()
}
