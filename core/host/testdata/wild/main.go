// Plugin wild misbehaves as the task's prompt tells it to.
package main

import (
	"context"
	crand "crypto/rand"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"net"
	"os"
	"strings"
	"time"

	"github.com/valence-rl/valence/sdk"
)

type skill struct{}

func init() { sdk.Register(skill{}) }

func main() { sdk.Main() }

func (skill) Describe() (name, version string) { return "wild", "1.2.3" }

func (skill) Build(ctx context.Context, h sdk.Host, r *sdk.BuildRequest) (*sdk.BuildResponse, error) {
	task := func(key string) sdk.Task { return sdk.Task{Key: key} }
	switch r.Record.ID {
	case "nothing":
		return &sdk.BuildResponse{}, nil
	case "skip":
		return &sdk.BuildResponse{Skipped: "no such luck"}, nil
	case "no key":
		return &sdk.BuildResponse{Tasks: []sdk.Task{task("a"), task("")}}, nil
	case "twice":
		return &sdk.BuildResponse{Tasks: []sdk.Task{task("a"), task("a")}}, nil
	case "sandbox":
		_, err := h.Run(ctx, &sdk.RunRequest{})
		return nil, err
	case "log":
		h.Log(ctx, "warn", "a word while building")
	}
	return &sdk.BuildResponse{Tasks: []sdk.Task{task("wild/" + r.Record.ID)}}, nil
}

func (skill) Judge(ctx context.Context, h sdk.Host, r *sdk.JudgeRequest) (*sdk.JudgeResponse, error) {
	switch r.Issue {
	case "sure":
		return &sdk.JudgeResponse{Verdict: true, Confidence: 2}, nil
	case "panic":
		panic("no opinion")
	}
	return &sdk.JudgeResponse{Verdict: true, Confidence: 0.75, Rationale: r.Before.Output}, nil
}

var (
	calls int
	kept  [][]byte
)

func (skill) Evaluate(ctx context.Context, h sdk.Host, r *sdk.EvaluateRequest) (*sdk.Verdict, error) {
	calls++
	v := &sdk.Verdict{Score: 0.5}
	switch r.Task.Prompt {
	case "count":
		v.Reason = fmt.Sprint(calls)
	case "error":
		return nil, errors.New("an orderly error")
	case "panic":
		var m map[string]int
		m["x"] = 1
	case "panic in a goroutine":
		go func() { panic("elsewhere") }()
		select {}
	case "loop":
		for n := 0; n >= 0; n = n*5 + 1&math.MaxInt32 {
			n &= math.MaxInt32
		}
	case "sleep for ever":
		for {
			time.Sleep(24 * time.Hour)
		}
	case "memory":
		for {
			b := make([]byte, 1<<20)
			for i := 0; i < len(b); i += 4096 {
				b[i] = 1
			}
			kept = append(kept, b)
		}
	case "recurse":
		v.Score = float64(deep(0))
	case "exit":
		fmt.Println("on standard output")
		fmt.Fprintln(os.Stderr, "on standard error")
		os.Exit(7)
	case "exit as if the deadline had passed":
		os.Exit(math.MaxUint32 & 0xefffffff)
	case "deadlock":
		select {}
	case "nil":
		return nil, nil
	case "score 1.5":
		v.Score = 1.5
	case "score -0.1":
		v.Score = -0.1
	case "score NaN":
		v.Score = math.NaN()
	case "component Inf":
		v.Components = []sdk.Component{{Name: "a", Value: math.Inf(1)}}
	case "component without name":
		v.Components = []sdk.Component{{Value: 1}}
	case "model":
		_, err := h.Model(ctx, &sdk.ModelRequest{})
		return v, err
	case "run":
		res, err := h.Run(ctx, &sdk.RunRequest{Commands: []sdk.Command{{Shell: "true"}}})
		if err != nil {
			return nil, fmt.Errorf("run the tests: %w", err)
		}
		v.Reason = res.Logs[0].Output
	case "run, own words":
		if _, err := h.Run(ctx, &sdk.RunRequest{}); err != nil {
			return nil, errors.New("the tests could not be run")
		}
	case "run, panic":
		if _, err := h.Run(ctx, &sdk.RunRequest{}); err != nil {
			panic(err)
		}
	case "run, ask, error":
		h.Run(ctx, &sdk.RunRequest{})
		h.Ask(ctx, &sdk.JudgeRequest{})
		return nil, errors.New("something else")
	case "run, then score":
		if _, err := h.Run(ctx, &sdk.RunRequest{}); err != nil {
			v.Reason = err.Error()
		}
	case "ask":
		res, err := h.Ask(ctx, &sdk.JudgeRequest{Issue: "i"})
		if err != nil {
			return nil, err
		}
		v.Score = res.Confidence
	case "many":
		return many(ctx, h)
	case "nest":
		if r.Task.Key == "0" {
			return v, nil
		}
		res, err := h.Ask(ctx, &sdk.JudgeRequest{Issue: r.Task.Key})
		if err != nil {
			return nil, err
		}
		v.Score = res.Confidence
	case "leave a question behind":
		go h.Run(ctx, &sdk.RunRequest{})
		h.Log(ctx, "info", "left")
	case "long question":
		_, err := h.Run(ctx, &sdk.RunRequest{Commands: []sdk.Command{{Shell: strings.Repeat("x", 64<<20)}}})
		return v, err
	case "long answer":
		v.Reason = strings.Repeat("x", 64<<20)
	case "echo":
		v.Reason = r.Output.Message
	case "environment":
		v.Reason = fmt.Sprint(os.Environ())
	case "number":
		v.Reason = fmt.Sprint(os.Getpid())
	case "log":
		h.Log(ctx, "warn", "a word")
		h.Log(ctx, "shout", "at no known level")
		h.Log(ctx, "info", strings.Repeat("é", 1<<20))
	case "flood":
		for i := range 5000 {
			h.Log(ctx, "info", fmt.Sprint("line ", i))
		}
	case "world":
		v.Reason = world()
	case "prison":
		_, read := os.ReadFile("/etc/hostname")
		_, list := os.ReadDir("/")
		write := os.WriteFile("/tmp/x", []byte("x"), 0o600)
		_, dial := net.DialTimeout("tcp", "127.0.0.1:22", time.Second)
		_, dns := net.LookupHost("localhost")
		if read != nil && list != nil && write != nil && dial != nil && dns != nil {
			v.Reason = fmt.Sprint("closed ", os.Environ(), os.Args)
		}
	}
	return v, nil
}

// many asks the host over and over, at last from many goroutines at once.
func many(ctx context.Context, h sdk.Host) (*sdk.Verdict, error) {
	ask := func(n int) error {
		want := fmt.Sprint("command ", n)
		res, err := h.Run(ctx, &sdk.RunRequest{Commands: []sdk.Command{{Shell: want}}})
		if err == nil && res.Logs[0].Output != want {
			err = fmt.Errorf("%q in answer to %q", res.Logs[0].Output, want)
		}
		return err
	}
	for n := range 100 {
		if err := ask(n); err != nil {
			return nil, err
		}
	}
	errs := make(chan error)
	for n := range 32 {
		go func() { errs <- ask(n) }()
	}
	var all []error
	for range 32 {
		all = append(all, <-errs)
	}
	return &sdk.Verdict{Score: 1}, errors.Join(all...)
}

// deep has frames so large that few of them fill the stack.
func deep(n int) int {
	var frame [16 << 10]byte
	frame[n%len(frame)] = byte(n)
	return deep(n+1) + int(frame[(n+1)%len(frame)])
}

// world is all that could differ from one run to the next.
func world() string {
	var b [16]byte
	crand.Read(b[:])
	start := time.Now()
	time.Sleep(time.Hour)
	m := map[int]int{}
	for i := range 100 {
		m[i] = i
	}
	order := ""
	for k := range m {
		order += fmt.Sprint(k, " ")
	}
	return fmt.Sprintf("%x %d %v %v %s", b, rand.Uint64(), start.UTC(), time.Since(start) >= time.Hour, order)
}
