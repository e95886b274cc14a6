package main

import (
	"testing"

	"github.com/valence-rl/valence/sdk"
	"github.com/valence-rl/valence/sdk/sdktest"
)

func TestSkill(t *testing.T) {
	sdktest.Check(t, skill{}, nil, []sdk.Pair{{Key: "words", Value: "3"}}, sdktest.Records()...)
}
