package scoring

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/valence-rl/valence/core/diag"
	"github.com/valence-rl/valence/sdk"
	"github.com/valence-rl/valence/sdk/wire"
)

// Answers is a Model that keeps the answers of another by content: the model's name
// and every byte of the question. The same question is put to the server once, also
// by several processes and by later runs if there is a folder. It keeps only
// answers that can be had again, at temperature 0 or with a seed, and no errors.
//
// The folder holds one JSON file an answer and may be removed at any time; what in
// it cannot be read is asked for again.
type Answers struct {
	recall
	of   Completer
	name string
	dir  string
	log  *slog.Logger
}

// AnswersOptions says where answers are kept.
type AnswersOptions struct {
	Dir string       // made when needed; "" keeps answers in memory alone
	Log *slog.Logger // hears of a folder that cannot be written; nil is silent
}

// KeepAnswers keeps the answers of a model of that name.
func KeepAnswers(of Completer, name string, o AnswersOptions) *Answers {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	a := &Answers{recall: newRecall(0), of: of, name: name, dir: o.Dir, log: o.Log}
	a.sweep()
	return a
}

// Complete gives the kept answer or asks. Callers with the same question at the
// same time share one call of the server.
func (a *Answers) Complete(ctx context.Context, q *sdk.ModelRequest) (*Answer, error) {
	if !repeatable(q) {
		return a.of.Complete(ctx, q)
	}
	key := a.key(q)
	var fresh *Answer
	data, own, err := a.do(ctx, key, func() ([]byte, bool, error) {
		if r := a.load(key); r != nil {
			return wire.Marshal(r), true, nil
		}
		got, err := a.of.Complete(ctx, q)
		if err != nil {
			return nil, false, err
		}
		fresh = got
		r := &sdk.ModelResponse{Texts: got.Texts}
		a.save(key, r)
		return wire.Marshal(r), true, nil
	})
	if err != nil {
		if diag.KindOf(err) == diag.KindUnknown { // this caller's own end
			err = diag.Errorf(diag.KindJudge, "ask model", a.name, "waiting for the answer: %w", err)
		}
		return nil, err
	}
	if own && fresh != nil {
		return fresh, nil
	}
	r := new(sdk.ModelResponse)
	if err := wire.Unmarshal(data, r); err != nil {
		return nil, err
	}
	return &Answer{Texts: r.Texts, Cached: true}, nil
}

// Forget drops the kept answer, if there is one: who asks next is answered anew.
func (a *Answers) Forget(q *sdk.ModelRequest) {
	if !repeatable(q) {
		return
	}
	key := a.key(q)
	a.drop(key)
	if a.dir == "" {
		return
	}
	if err := os.Remove(a.path(key)); err != nil && !errors.Is(err, os.ErrNotExist) {
		a.log.Warn("the model's answer is not forgotten", "error", err)
	}
}

// repeatable tells whether the same question has the same answer, as far as the
// asker can see to it.
func repeatable(q *sdk.ModelRequest) bool { return q.Temperature == 0 || q.Seed != 0 }

func (a *Answers) key(q *sdk.ModelRequest) [32]byte {
	return sha256.Sum256(append([]byte(a.name+"\x00"), wire.Marshal(q)...))
}

// kept is an answer's file.
type kept struct {
	Model string   `json:"model"`
	Texts []string `json:"texts"`
}

func (a *Answers) path(key [32]byte) string {
	name := hex.EncodeToString(key[:])
	return filepath.Join(a.dir, name[:2], name[2:]+".json")
}

// load gives the kept answer, nil if there is none that can be read.
func (a *Answers) load(key [32]byte) *sdk.ModelResponse {
	if a.dir == "" {
		return nil
	}
	b, err := os.ReadFile(a.path(key))
	var k kept
	if err != nil || json.Unmarshal(b, &k) != nil || k.Model != a.name || len(k.Texts) == 0 {
		return nil
	}
	return &sdk.ModelResponse{Texts: k.Texts}
}

// save writes by rename. A folder that cannot be written is no reason to lose the
// answer.
func (a *Answers) save(key [32]byte, r *sdk.ModelResponse) {
	if a.dir == "" {
		return
	}
	b, err := json.Marshal(kept{a.name, r.Texts})
	if err == nil {
		err = replaceFile(a.path(key), b)
	}
	if err != nil {
		a.log.Warn("the model's answer is not kept", "error", err)
	}
}

const unfinished = ".new-*"

func replaceFile(path string, data []byte) error {
	dir := filepath.Dir(path)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	f, err := os.CreateTemp(dir, unfinished)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	err = errors.Join(err, f.Chmod(0o644), f.Sync(), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		os.Remove(f.Name())
	}
	return err
}

// sweep removes what killed processes left half-written; what is younger than an
// hour may be another's that lives.
func (a *Answers) sweep() {
	if a.dir == "" {
		return
	}
	left, _ := filepath.Glob(filepath.Join(a.dir, "??", unfinished))
	for _, p := range left {
		if i, err := os.Stat(p); err == nil && time.Since(i.ModTime()) > time.Hour {
			os.Remove(p)
		}
	}
}
