package transcript

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/valence-rl/valence/core/diag"
	"github.com/valence-rl/valence/core/journal"
)

// Stored lists the files of episodes at path: a file of them, the training steps of a
// run's folder, or with evals its evaluations, or the files of a folder.
func Stored(path string, evals bool) ([]string, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, diag.Wrap(diag.KindData, op, path, err)
	}
	if !info.IsDir() {
		return []string{path}, nil
	}
	steps, err := filepath.Glob(filepath.Join(path, "steps", "[0-9]*", "episodes.jsonl.zst"))
	if err != nil {
		return nil, diag.Wrap(diag.KindData, op, path, err)
	}
	measured, err := filepath.Glob(filepath.Join(path, "evals", "*.episodes.jsonl.zst"))
	if err != nil {
		return nil, diag.Wrap(diag.KindData, op, path, err)
	}
	loose, err := filepath.Glob(filepath.Join(path, "*.episodes.jsonl.zst"))
	if err != nil {
		return nil, diag.Wrap(diag.KindData, op, path, err)
	}
	switch {
	case evals && len(measured) > 0:
		return measured, nil
	case evals:
		return nil, diag.Errorf(diag.KindData, op, path, "no evaluation there")
	case len(steps)+len(loose) > 0:
		return append(steps, loose...), nil
	case len(measured) > 0:
		return nil, diag.Errorf(diag.KindData, op, path, "the run has evaluations only, whose tasks are there to be measured; --evals reads them all the same")
	}
	return nil, diag.Errorf(diag.KindData, op, path, "no episodes there: neither a run's folder nor one of data trajectories")
}

// Filter says which stored episodes are taken. The zero Filter takes those that have a
// verdict and submitted.
type Filter struct {
	Skills   []string // none: every skill
	MinScore float64
	Judge    string // digest of the judge, or its beginning; none: that no judge had a part in; "": whatever
	Ended    bool   // however they ended
	Twice    bool   // duplicates too

	seen map[[sha256.Size]byte]bool
}

// Episodes gives the episodes of a file that are taken; one that is not comes with the
// reason. An error without an episode ends the sequence.
func (f *Filter) Episodes(file string) iter.Seq2[*journal.Episode, error] {
	return func(yield func(*journal.Episode, error) bool) {
		for e, err := range journal.ReadEpisodes(file) {
			if err != nil {
				yield(nil, err)
				return
			}
			if !yield(&e, f.refuses(&e)) {
				return
			}
		}
	}
}

func (f *Filter) refuses(e *journal.Episode) error {
	switch {
	case len(f.Skills) > 0 && !slices.Contains(f.Skills, e.Skill):
		return errors.New("another skill")
	case e.Outcome != journal.Scored:
		return errors.New("the infrastructure failed")
	case e.Trajectory == nil:
		return errors.New("no trajectory is stored")
	case e.Score < f.MinScore:
		return fmt.Errorf("the score is below %g", f.MinScore)
	case !f.Ended && e.End != "submitted":
		return fmt.Errorf("it ended with %s", e.End)
	case f.Judge == "none" && e.Plugins["judge"] != "", f.Judge != "" && f.Judge != "none" && !strings.HasPrefix(digits(e.Plugins["judge"]), digits(f.Judge)):
		return errors.New("another judge")
	case f.Twice:
		return nil
	}
	if f.seen == nil {
		f.seen = map[[sha256.Size]byte]bool{}
	}
	t, err := FromEpisode(e)
	if err != nil {
		return err
	}
	d := t.Deeds()
	if f.seen[d] {
		return errors.New("a duplicate")
	}
	f.seen[d] = true
	return nil
}

func digits(digest string) string { return strings.TrimPrefix(digest, "sha256:") }

// Deeds is a digest of the task and of what the agent did about it: transcripts with the
// same one are duplicates. The tools' answers do not count; they have times and addresses
// in them, and follow from the turns.
func (t *Transcript) Deeds() [sha256.Size]byte {
	type deed struct {
		Text, Malformed, Tool string
		Arguments             map[string]string
	}
	all := []any{t.Task, t.System, t.Prompt}
	for i := range t.Turns {
		d := deed{Text: t.Turns[i].Text, Malformed: t.Turns[i].Malformed}
		if c := t.Turns[i].Call; c != nil {
			d.Tool, d.Arguments = c.Tool, c.Arguments
		}
		all = append(all, d)
	}
	b, err := json.Marshal(all)
	if err != nil {
		panic(err) // texts only
	}
	return sha256.Sum256(b)
}
