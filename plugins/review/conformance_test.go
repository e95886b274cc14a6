package main

import (
	"testing"

	"github.com/valence-rl/valence/sdk/sdktest"
)

func TestConformance(t *testing.T) {
	sdktest.Check(t, skill{}, &sdktest.Host{}, nil, sdktest.Records()...)
}
