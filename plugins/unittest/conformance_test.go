package main

import (
	"regexp"
	"strings"
	"testing"

	"github.com/valence-rl/valence/sdk/sdktest"
)

func TestConformance(t *testing.T) {
	sdktest.Check(t, skill{}, &sdktest.Host{}, nil, sdktest.Records()...)
}

// The brief form leaves a context of 512 tokens to the work.
func TestBriefIsShort(t *testing.T) {
	fixed := regexp.MustCompile(`\{\w+\}`).ReplaceAllString(brief, "")
	if n := len(strings.Fields(fixed)); n > 20 {
		t.Errorf("%d words besides the placeholders, want at most 20", n)
	}
}
