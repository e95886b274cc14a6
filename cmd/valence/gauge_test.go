package main

import (
	"strings"
	"testing"
	"time"
)

func TestGauge(t *testing.T) {
	now := time.Unix(0, 0)
	clock := func() time.Time { return now }
	for _, c := range []struct {
		mode progressMode
		want string
	}{
		{progressNone, ""},
		{progressPlain, "a row is bad\nimporting  50%  12 records  30s, ~30s left\n"},
		{progressLive, "\rimporting ██░░░░░░░░░░░░░░░░░░░░░░  10%  3 records  0s\x1b[K\r\x1b[Ka row is bad\n" +
			"\rimporting ████████████░░░░░░░░░░░░  50%  12 records  30s, ~30s left\x1b[K\r\x1b[K"},
	} {
		now = time.Unix(0, 0)
		var b strings.Builder
		g := gaugeOn(&b, c.mode, "importing", clock)
		g.set(10, 100, "3 records")
		g.set(11, 100, "4 records") // too soon
		g.said("a row is bad")
		now = now.Add(30 * time.Second)
		g.set(50, 100, "12 records")
		g.close()
		if b.String() != c.want {
			t.Errorf("mode %d: %q, want %q", c.mode, b.String(), c.want)
		}
	}
}
