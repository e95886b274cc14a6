package journal

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/klauspost/compress/zstd"

	"github.com/valence-rl/valence/core/diag"
)

// Dir is a run directory.
type Dir string

// Path joins names to the directory.
func (d Dir) Path(names ...string) string {
	return filepath.Join(append([]string{string(d)}, names...)...)
}

// StepDir is the folder of a complete step.
func (d Dir) StepDir(step int) string { return d.Path("steps", fmt.Sprintf("%06d", step)) }

// CheckpointDir is the folder of a checkpoint made after a step.
func (d Dir) CheckpointDir(step int) string { return d.Path("checkpoints", fmt.Sprintf("%06d", step)) }

// WriteFile replaces a file of the run by rename, synced, so that a reader sees
// the old bytes or the new ones.
func (d Dir) WriteFile(name string, data []byte) error {
	return replace(d.Path(name), data)
}

func replace(path string, data []byte) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return diag.Wrap(diag.KindData, "write run", path, err)
	}
	f, err := os.CreateTemp(filepath.Dir(path), ".new-*")
	if err != nil {
		return diag.Wrap(diag.KindData, "write run", path, err)
	}
	_, err = f.Write(data)
	err = errors.Join(err, f.Chmod(0o644), f.Sync(), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		os.Remove(f.Name())
		return diag.Wrap(diag.KindData, "write run", path, err)
	}
	return syncDir(filepath.Dir(path))
}

func syncDir(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return diag.Wrap(diag.KindData, "sync", path, err)
	}
	return errors.Join(f.Sync(), f.Close())
}

// WriteJSON replaces a file by v's JSON.
func (d Dir) WriteJSON(name string, v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return diag.Wrap(diag.KindData, "write run", name, err)
	}
	return d.WriteFile(name, append(b, '\n'))
}

// WriteStep makes a step's folder appear, whole, and brings metrics.jsonl up to
// it. A folder of the same step that is already there is left as it is.
func (d Dir) WriteStep(s Step, episodes []Episode) error {
	final := d.StepDir(s.Step)
	if _, err := os.Stat(final); err == nil {
		return d.rewriteMetrics()
	}
	if err := os.MkdirAll(d.Path("steps"), 0o755); err != nil {
		return diag.Wrap(diag.KindData, "write step", final, err)
	}
	tmp, err := os.MkdirTemp(d.Path("steps"), ".new-*")
	if err != nil {
		return diag.Wrap(diag.KindData, "write step", final, err)
	}
	defer os.RemoveAll(tmp)
	if err := writeEpisodes(filepath.Join(tmp, "episodes.jsonl.zst"), episodes); err != nil {
		return err
	}
	b, err := json.Marshal(s)
	if err != nil {
		return diag.Wrap(diag.KindData, "write step", final, err)
	}
	if err := replace(filepath.Join(tmp, "metrics.json"), append(b, '\n')); err != nil {
		return err
	}
	if err := os.Chmod(tmp, 0o755); err != nil {
		return diag.Wrap(diag.KindData, "write step", final, err)
	}
	if err := os.Rename(tmp, final); err != nil {
		return diag.Wrap(diag.KindData, "write step", final, err)
	}
	if err := syncDir(d.Path("steps")); err != nil {
		return err
	}
	return d.rewriteMetrics()
}

// rewriteMetrics derives metrics.jsonl from the step folders, so that a restart
// can neither lose a line nor repeat one.
func (d Dir) rewriteMetrics() error {
	steps, err := d.Steps()
	if err != nil {
		return err
	}
	var b bytes.Buffer
	for _, s := range steps {
		line, err := json.Marshal(s)
		if err != nil {
			return diag.Wrap(diag.KindData, "write metrics", "", err)
		}
		b.Write(append(line, '\n'))
	}
	return d.WriteFile("metrics.jsonl", b.Bytes())
}

func writeEpisodes(path string, episodes []Episode) error {
	f, err := os.Create(path)
	if err != nil {
		return diag.Wrap(diag.KindData, "write episodes", path, err)
	}
	defer f.Close()
	z, err := zstd.NewWriter(f)
	if err != nil {
		return diag.Wrap(diag.KindData, "write episodes", path, err)
	}
	enc := json.NewEncoder(z)
	enc.SetEscapeHTML(false)
	for i := range episodes {
		if err := enc.Encode(&episodes[i]); err != nil {
			return diag.Wrap(diag.KindData, "write episodes", path, err)
		}
	}
	return diag.Wrap(diag.KindData, "write episodes", path, errors.Join(z.Close(), f.Sync()))
}

// WriteEpisodes replaces a file of episodes by rename.
func WriteEpisodes(path string, episodes iter.Seq2[*Episode, error]) error {
	fail := func(err error) error { return diag.Wrap(diag.KindData, "write episodes", path, err) }
	f, err := os.CreateTemp(filepath.Dir(path), ".new-*")
	if err != nil {
		return fail(err)
	}
	defer os.Remove(f.Name()) // gone already if it has its name
	defer f.Close()
	z, err := zstd.NewWriter(f)
	if err != nil {
		return fail(err)
	}
	defer z.Close()
	enc := json.NewEncoder(z)
	enc.SetEscapeHTML(false)
	for e, err := range episodes {
		if err == nil {
			err = enc.Encode(e)
		}
		if err != nil {
			return fail(err)
		}
	}
	if err := errors.Join(z.Close(), f.Chmod(0o644), f.Sync(), f.Close()); err != nil {
		return fail(err)
	}
	if err := os.Rename(f.Name(), path); err != nil {
		return fail(err)
	}
	return syncDir(filepath.Dir(path))
}

// DropStepsAfter removes the folders of steps newer than the given one, which were
// finished after the checkpoint that a resumed run starts from, and whatever a
// killed process left half-written anywhere in the run.
func (d Dir) DropStepsAfter(step int) error {
	all, err := d.stepNumbers()
	if err != nil {
		return err
	}
	for _, n := range all {
		if n > step {
			if err := os.RemoveAll(d.StepDir(n)); err != nil {
				return diag.Wrap(diag.KindData, "resume", d.StepDir(n), err)
			}
		}
	}
	if err := d.sweep(); err != nil {
		return err
	}
	if len(all) == 0 {
		return nil
	}
	return d.rewriteMetrics()
}

// sweep removes what was being written when the last process was killed.
func (d Dir) sweep() error {
	for _, pattern := range []string{".new-*", "*/.new-*", "evals/*.new"} {
		left, err := filepath.Glob(d.Path(pattern))
		if err != nil {
			return diag.Wrap(diag.KindData, "resume", string(d), err)
		}
		for _, p := range left {
			if err := os.RemoveAll(p); err != nil {
				return diag.Wrap(diag.KindData, "resume", p, err)
			}
		}
	}
	return nil
}

func (d Dir) stepNumbers() ([]int, error) {
	es, err := os.ReadDir(d.Path("steps"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, diag.Wrap(diag.KindData, "read run", string(d), err)
	}
	var out []int
	for _, e := range es {
		var n int
		if _, err := fmt.Sscanf(e.Name(), "%06d", &n); err == nil && !strings.HasPrefix(e.Name(), ".") {
			out = append(out, n)
		}
	}
	slices.Sort(out)
	return out, nil
}

// Steps reads every complete step, oldest first.
func (d Dir) Steps() ([]Step, error) {
	ns, err := d.stepNumbers()
	if err != nil {
		return nil, err
	}
	out := make([]Step, 0, len(ns))
	for _, n := range ns {
		var s Step
		if err := d.readJSON(filepath.Join("steps", fmt.Sprintf("%06d", n), "metrics.json"), &s); err != nil {
			return nil, err
		}
		out = append(out, s)
	}
	return out, nil
}

// Episodes yields the episodes of one step. An error ends the sequence.
func (d Dir) Episodes(step int) iter.Seq2[Episode, error] {
	return ReadEpisodes(filepath.Join(d.StepDir(step), "episodes.jsonl.zst"))
}

// EvalEpisodes yields the episodes of one evaluation.
func (d Dir) EvalEpisodes(step int, split string) iter.Seq2[Episode, error] {
	return ReadEpisodes(d.EvalEpisodesFile(step, split))
}

// EvalEpisodesFile is where the episodes of one evaluation lie.
func (d Dir) EvalEpisodesFile(step int, split string) string {
	return d.Path("evals", evalName(step, split)+".episodes.jsonl.zst")
}

// ReadEpisodes yields the episodes of a file *.episodes.jsonl.zst. An error ends the
// sequence.
func ReadEpisodes(path string) iter.Seq2[Episode, error] {
	return func(yield func(Episode, error) bool) {
		fail := func(err error) { yield(Episode{}, diag.Wrap(diag.KindData, "read episodes", path, err)) }
		f, err := os.Open(path)
		if err != nil {
			fail(err)
			return
		}
		defer f.Close()
		z, err := zstd.NewReader(f)
		if err != nil {
			fail(err)
			return
		}
		defer z.Close()
		dec := json.NewDecoder(bufio.NewReader(z))
		for {
			var e Episode
			err := dec.Decode(&e)
			if errors.Is(err, io.EOF) {
				return
			}
			if err != nil {
				fail(err)
				return
			}
			if !yield(e, nil) {
				return
			}
		}
	}
}

func evalName(step int, split string) string { return fmt.Sprintf("%06d-%s", step, split) }

// WriteEval stores an evaluation and its episodes.
func (d Dir) WriteEval(e Eval, episodes []Episode) error {
	if err := os.MkdirAll(d.Path("evals"), 0o755); err != nil {
		return diag.Wrap(diag.KindData, "write evaluation", string(d), err)
	}
	base := d.Path("evals", evalName(e.Step, e.Split))
	tmp := base + ".new"
	if err := writeEpisodes(tmp, episodes); err != nil {
		return err
	}
	if err := os.Rename(tmp, base+".episodes.jsonl.zst"); err != nil {
		return diag.Wrap(diag.KindData, "write evaluation", base, err)
	}
	return d.WriteJSON(filepath.Join("evals", evalName(e.Step, e.Split)+".json"), e)
}

// Eval reads one evaluation; ok is false when it has not been made.
func (d Dir) Eval(step int, split string) (e Eval, ok bool, err error) {
	err = d.readJSON(filepath.Join("evals", evalName(step, split)+".json"), &e)
	if errors.Is(err, fs.ErrNotExist) {
		return Eval{}, false, nil
	}
	return e, err == nil, err
}

// Evals reads every evaluation, by step and then by split.
func (d Dir) Evals() ([]Eval, error) {
	names, err := filepath.Glob(d.Path("evals", "*.json"))
	if err != nil {
		return nil, diag.Wrap(diag.KindData, "read run", string(d), err)
	}
	slices.Sort(names)
	var out []Eval
	for _, n := range names {
		var e Eval
		if err := d.readJSON(filepath.Join("evals", filepath.Base(n)), &e); err != nil {
			return nil, err
		}
		out = append(out, e)
	}
	return out, nil
}

// State reads state.json; ok is false when the run has none yet.
func (d Dir) State() (s State, ok bool, err error) {
	err = d.readJSON("state.json", &s)
	if errors.Is(err, fs.ErrNotExist) {
		return State{}, false, nil
	}
	return s, err == nil, err
}

func (d Dir) readJSON(name string, v any) error {
	b, err := os.ReadFile(d.Path(name))
	if err != nil {
		return diag.Wrap(diag.KindData, "read run", d.Path(name), err)
	}
	if err := json.Unmarshal(b, v); err != nil {
		return diag.Errorf(diag.KindData, "read run", d.Path(name), "%w; remove the file if it was edited by hand", err)
	}
	return nil
}
