package main

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/valence-rl/valence/core/journal"
)

func testStep(n int) *journal.Step {
	return &journal.Step{
		Step: n, Version: n - 1, Loss: 0.0131, ClipShare: 0.021, Entropy: 0.412, Seconds: 163, RolloutSeconds: 141, TrainSeconds: 22,
		Fates: map[string]int{"stale": 3},
		Skills: map[string]*journal.SkillStep{
			"localization": {Weight: 0.2, Realised: 0.21, Groups: 13, Episodes: 104, Score: 0.69, Kept: 0.86, AllZero: 1, AllOne: 1},
			"editing":      {Weight: 0.3, Realised: 0.29, Groups: 19, Episodes: 152, Score: 0.53, Kept: 0.79, Filtered: 0.04, AllZero: 3, AllOne: 1},
		},
	}
}

type clock struct{ t time.Time }

func (c *clock) now() time.Time { return c.t }

func TestPlainView(t *testing.T) {
	var b bytes.Buffer
	c := &clock{time.Unix(1000, 0)}
	v := viewOn(&b, palette{}, progressPlain, c.now)
	v.steps = 100
	v.opening("plugins")
	c.t = c.t.Add(10 * time.Second)
	v.started("rollouts", 80, 40, 0)
	v.finished("", 12, 80, map[string]int{"sandbox": 6, "judge": 1})
	v.tick() // silent for 10 s only
	c.t = c.t.Add(25 * time.Second)
	v.tick()
	v.stepped(testStep(41), 0)
	v.close()
	v.close()
	v.warned("not shown after the end")
	want := `opening plugins
rollouts 12/80  35s, ~2m22s left  errors 7 (sandbox 6, judge 1)
step 41/100  policy v40  rollouts 12/80  35s, ~2h39m left  stale 3  errors 7 (sandbox 6, judge 1)  loss 0.013  clipped 2.1%  entropy 0.41  step 163s (rollout 141s, train 22s)  editing 0.53 localization 0.69
`
	if b.String() != want {
		t.Errorf("got\n%s\nwant\n%s", b.String(), want)
	}
}

func TestLiveView(t *testing.T) {
	var b bytes.Buffer
	c := &clock{time.Unix(1000, 0)}
	v := viewOn(&b, palette{}, progressLive, c.now)
	v.width = func() int { return 60 }
	v.steps = 100
	v.stepped(testStep(41), 0)
	v.tick()
	first := b.String()
	if n := strings.Count(first, "\n"); n != 5 {
		t.Fatalf("%d lines:\n%s", n, first)
	}
	for _, l := range strings.Split(strings.ReplaceAll(first, "\x1b[K", ""), "\n") {
		if n := len([]rune(strings.TrimLeft(strings.ReplaceAll(l, "\x1b[J", ""), "\r"))); n > 59 {
			t.Errorf("line of %d characters on a screen of 60: %q", n, l)
		}
	}
	b.Reset()
	v.tick()
	if !strings.HasPrefix(b.String(), "\x1b[5A\r") {
		t.Errorf("the picture is not drawn over the old one: %q", b.String())
	}
	b.Reset()
	v.noted("saved runs/x/checkpoints/000041")
	if s := b.String(); !strings.HasPrefix(s, "\x1b[5A\r\x1b[Jsaved runs/x/checkpoints/000041\n") {
		t.Errorf("a note belongs above the picture: %q", s)
	}
}

// How far an image is shows while there is nothing else to show.
func TestPullingView(t *testing.T) {
	var b bytes.Buffer
	c := &clock{time.Unix(1000, 0)}
	v := viewOn(&b, palette{}, progressPlain, c.now)
	v.opening("image acme/tool:1")
	v.pulling("acme/tool:1", 0, 120)
	c.t = c.t.Add(40 * time.Second)
	v.pulling("acme/tool:1", 30, 120)
	v.tick()
	v.started("rollouts", 80, 40, 0)
	v.pulling("acme/other:1", 1, 120)
	c.t = c.t.Add(40 * time.Second)
	v.tick()
	v.close()
	want := "opening image acme/tool:1\npulling acme/tool:1, MiB 30/120  40s, ~2m00s left\nrollouts 0/80  1m20s\n"
	if b.String() != want {
		t.Errorf("got\n%s\nwant\n%s", b.String(), want)
	}
}

func TestEvalLine(t *testing.T) {
	e := &journal.Eval{Step: 10, Split: "eval", Runs: 2, Skills: []journal.SkillEval{
		{Name: "a", Scores: [][]float64{{1, 0}, {1}, {}}},
		{Name: "b", Scores: [][]float64{{0, 0}}},
		{Name: "c"},
	}}
	if got, want := evalLine(e), "eval at step 10, Avg@2: a 0.750 b 0.000 c -, mean 0.375"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestBriefly(t *testing.T) {
	for d, want := range map[time.Duration]string{0: "0s", 59 * time.Second: "59s", 61 * time.Second: "1m01s", 6720 * time.Second: "1h52m", -time.Second: "0s"} {
		if got := briefly(d); got != want {
			t.Errorf("%v: got %s, want %s", d, got, want)
		}
	}
}
