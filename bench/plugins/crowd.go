package main

import (
	"fmt"
	"os"
)

// evaluations is how many wait in host calls at once.
const evaluations = 1000

// crowd is what evaluations cost that wait for the host.
type crowd struct {
	Evaluations int `json:"evaluations"`
	Threads     int `json:"threads"` // of the host, its own included
	KiB         int `json:"kib"`     // for each evaluation
}

func gather(p waiting, hold question) (*crowd, error) {
	before, err := memory()
	if err != nil {
		return nil, err
	}
	var releases []func() error
	for range evaluations {
		release, err := p.wait(hold)
		if err != nil {
			return nil, err
		}
		releases = append(releases, release)
	}
	after, err := memory()
	if err != nil {
		return nil, err
	}
	threads, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", os.Getpid()))
	if err != nil {
		return nil, err
	}
	for _, release := range releases {
		if err := release(); err != nil {
			return nil, err
		}
	}
	return &crowd{Evaluations: evaluations, Threads: len(threads), KiB: (after - before) / evaluations}, nil
}
