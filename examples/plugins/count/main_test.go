package main

import (
	"testing"

	"github.com/valence-rl/valence/sdk/sdktest"
)

func TestSkill(t *testing.T) {
	sdktest.Check(t, skill{}, nil, nil, sdktest.Records()...)
}
