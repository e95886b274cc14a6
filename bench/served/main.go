// Command served compares two evaluations of one checkpoint, episode by episode: by the
// embedded engine, and through a server. Arguments: the two run folders and the split.
// It exits with 1 unless every episode has the same score.
package main

import (
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/valence-rl/valence/core/atif"
	"github.com/valence-rl/valence/core/journal"
)

func main() {
	if len(os.Args) != 4 {
		fmt.Fprintln(os.Stderr, "usage: served ENGINE-RUN SERVED-RUN SPLIT")
		os.Exit(2)
	}
	same, err := compare(journal.Dir(os.Args[1]), journal.Dir(os.Args[2]), os.Args[3])
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	if !same {
		os.Exit(1)
	}
}

// row is what a skill's episodes have in common.
type row struct {
	episodes, scores, words, tokens int // episodes; of those with the same score, conversation, and number of sampled tokens
	engine, served                  float64
}

func compare(a, b journal.Dir, split string) (bool, error) {
	engine, err := episodes(a, split)
	if err != nil {
		return false, err
	}
	served, err := episodes(b, split)
	if err != nil {
		return false, err
	}
	rows, all := map[string]*row{}, row{}
	var names, differ []string
	for _, id := range sorted(engine) {
		x := engine[id]
		y, ok := served[id]
		if !ok {
			return false, fmt.Errorf("%s: the server's evaluation has no such episode", id)
		}
		r := rows[x.Skill]
		if r == nil {
			r = &row{}
			rows[x.Skill] = r
			names = append(names, x.Skill)
		}
		if x.Outcome != journal.Scored || y.Outcome != journal.Scored {
			differ = append(differ, fmt.Sprintf("%s: %s%s, %s%s", id, x.Outcome, x.Error, y.Outcome, y.Error))
		} else if x.Score != y.Score {
			differ = append(differ, fmt.Sprintf("%s: %g (%s), %g (%s)", id, x.Score, x.End, y.Score, y.End))
		}
		for _, r := range []*row{r, &all} {
			r.episodes++
			r.engine += x.Score
			r.served += y.Score
			if x.Outcome == y.Outcome && x.Score == y.Score {
				r.scores++
			}
			if conversation(x.Trajectory) == conversation(y.Trajectory) {
				r.words++
			}
			if x.SampledTokens == y.SampledTokens {
				r.tokens++
			}
		}
	}
	if len(served) != len(engine) {
		return false, fmt.Errorf("%d episodes by the engine, %d by the server", len(engine), len(served))
	}
	fmt.Println("| skill | episodes | engine | served | same score | same conversation | same count of tokens |")
	fmt.Println("|---|---|---|---|---|---|---|")
	line := func(name string, r *row) {
		n := float64(r.episodes)
		fmt.Printf("| %s | %d | %.3f | %.3f | %d | %d | %d |\n", name, r.episodes, r.engine/n, r.served/n, r.scores, r.words, r.tokens)
	}
	for _, name := range names {
		line(name, rows[name])
	}
	line("all", &all)
	for _, d := range differ {
		fmt.Println(d)
	}
	return all.scores == all.episodes && len(differ) == 0, nil
}

func episodes(d journal.Dir, split string) (map[string]journal.Episode, error) {
	out := map[string]journal.Episode{}
	for e, err := range d.EvalEpisodes(0, split) {
		if err != nil {
			return nil, err
		}
		out[e.ID] = e
	}
	return out, nil
}

// conversation is all that was said, called and answered.
func conversation(t *atif.Trajectory) string {
	if t == nil {
		return ""
	}
	var b strings.Builder
	for _, s := range t.Steps {
		if s.Extra["malformed"] == nil { // tokens by their names there, and as the server wrote them
			fmt.Fprintf(&b, "%s %q", s.Source, s.Message)
		}
		for _, c := range s.ToolCalls {
			fmt.Fprintf(&b, " %s%v", c.Function, c.Arguments)
		}
		if s.Observation != nil {
			for _, o := range s.Observation.Results {
				fmt.Fprintf(&b, " -> %q", o.Content)
			}
		}
		b.WriteByte('\n')
	}
	return b.String()
}

func sorted(m map[string]journal.Episode) []string {
	ids := make([]string, 0, len(m))
	for id := range m {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return ids
}
