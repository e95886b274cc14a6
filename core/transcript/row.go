package transcript

import (
	"encoding/json"
	"strconv"
	"strings"

	"github.com/valence-rl/valence/core/atif"
	"github.com/valence-rl/valence/core/data/rows"
	"github.com/valence-rl/valence/core/journal"
)

// row is a transcript as a line of messages: the two keys that every service takes, and
// beside them what messages cannot say.
type row struct {
	Messages []message        `json:"messages"`
	Tools    []map[string]any `json:"tools,omitempty"`
	*about
}

// record is the same as a row of Parquet. A tool's schema is an object of any keys, so
// that tools are its JSON.
type record struct {
	Messages []message `parquet:"messages,list"`
	Tools    string    `parquet:"tools"`
	about
}

type about struct {
	ID        string     `json:"id" parquet:"id"`
	Task      string     `json:"task" parquet:"task"`
	Skill     string     `json:"skill" parquet:"skill"`
	Policy    string     `json:"policy" parquet:"policy"`
	Score     *float64   `json:"score,omitempty" parquet:"score,optional"`
	End       string     `json:"end" parquet:"end"`
	Tokenizer string     `json:"tokenizer,omitempty" parquet:"tokenizer"`
	Sequences []sequence `json:"sequences,omitempty" parquet:"sequences,list"`
}

// sequence is a [Sequence]: Learnt has 1 where the policy's own token is to be learnt.
type sequence struct {
	Tokens []int32 `json:"token_ids" parquet:"token_ids,list"`
	Learnt []int32 `json:"loss_mask" parquet:"loss_mask,list"`
}

func (t *Transcript) about() *about {
	a := &about{ID: t.ID, Task: t.Task, Skill: t.Skill, Policy: t.Policy, Score: t.Score, End: t.End}
	if len(t.Sequences) > 0 {
		a.Tokenizer = t.Tokenizer
	}
	for _, s := range t.Sequences {
		q := sequence{make([]int32, len(s.Tokens)), make([]int32, len(s.Tokens))}
		for i, id := range s.Tokens {
			q.Tokens[i] = int32(id)
			if s.Learnt[i] {
				q.Learnt[i] = 1
			}
		}
		a.Sequences = append(a.Sequences, q)
	}
	return a
}

// columns are the fields of a row by their names.
type columns map[string]rows.Value

func columnsOf(fields []rows.Field) columns {
	c := columns{}
	for _, f := range fields {
		c[f.Name] = f.Value
	}
	return c
}

// transcript reads a row of whichever form it is. whole is the row's JSON, nil of
// Parquet.
func (c columns) transcript(whole []byte) (*Transcript, error) {
	_, messages := c["messages"]
	_, episode := c["trajectory"]
	_, failed := c["outcome"]
	_, steps := c["schema_version"]
	switch {
	case messages:
		return c.fromMessages()
	case whole == nil:
		return nil, wrong("", "no column messages")
	case episode, failed:
		var e journal.Episode
		if err := json.Unmarshal(whole, &e); err != nil {
			return nil, misread("", err)
		}
		return FromEpisode(&e)
	case steps:
		return readATIF(whole)
	}
	return nil, wrong("", "no trajectory: want messages, an ATIF trajectory (schema_version), or an episode")
}

func readATIF(data []byte) (*Transcript, error) {
	var a atif.Trajectory
	if err := json.Unmarshal(data, &a); err != nil {
		err := misread("", err).(*FieldError)
		err.Field = strings.TrimPrefix(err.Field, ".")
		return nil, err
	}
	return FromATIF(&a)
}

// FromEpisode reads a stored episode. One that failed has no conversation and says so
// in Lost. An error is a [*FieldError].
func FromEpisode(e *journal.Episode) (*Transcript, error) {
	t := &Transcript{Lost: "it failed and has no trajectory: " + e.Error}
	if e.Trajectory != nil && (e.Outcome == journal.Scored || e.Error == "") {
		var err error
		if t, err = FromATIF(e.Trajectory); err != nil {
			err := err.(*FieldError)
			err.Field = strings.TrimSuffix("trajectory."+err.Field, ".")
			return nil, err
		}
	}
	t.ID, t.Task, t.Skill, t.Policy, t.End, t.Stored = e.ID, e.Task, e.Skill, e.Policy, e.End, true
	if e.Outcome == journal.Scored {
		t.Score = &e.Score
	}
	return t, nil
}

func (c columns) fromMessages() (*Transcript, error) {
	t := &Transcript{}
	for name, to := range map[string]*string{"id": &t.ID, "task": &t.Task, "skill": &t.Skill, "policy": &t.Policy, "end": &t.End, "tokenizer": &t.Tokenizer} {
		switch v, ok := c[name]; {
		case !ok || v.IsNull():
		case v.IsText():
			*to = v.Text
		case name == "id" && v.Kind() == "number":
			*to = string(v.JSON)
		default:
			return nil, wrong(name, "a %s where text was due", v.Kind())
		}
	}
	if v, ok := c["score"]; ok && !v.IsNull() {
		x, err := strconv.ParseFloat(string(v.JSON), 64)
		if err != nil {
			return nil, wrong("score", "a %s where a number was due", v.Kind())
		}
		t.Score = &x
	}
	v := c["messages"]
	text := v.JSON
	if v.IsText() { // some write lists of objects as their JSON
		text = []byte(v.Text)
	}
	if err := t.readMessages(text); err != nil {
		return nil, err
	}
	if v, ok := c["sequences"]; ok && !v.IsNull() {
		if err := t.readSequences(v.JSON); err != nil {
			return nil, err
		}
	}
	return t, nil
}

func (t *Transcript) readSequences(data []byte) error {
	var all []struct {
		Tokens []int `json:"token_ids"`
		Learnt []int `json:"loss_mask"`
	}
	if err := json.Unmarshal(data, &all); err != nil {
		return misread("sequences", err)
	}
	for i, s := range all {
		q := Sequence{Tokens: s.Tokens, Learnt: make([]bool, len(s.Learnt))}
		for j, on := range s.Learnt {
			q.Learnt[j] = on != 0
		}
		if err := q.check(); err != nil {
			return wrong("sequences["+strconv.Itoa(i)+"]", "%v", err)
		}
		t.Sequences = append(t.Sequences, q)
	}
	return nil
}
