package main

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/skillbay/skillbay/bench/economy"
)

func TestScorecardCountsMissedGoals(t *testing.T) {
	var w strings.Builder
	s := &scorecard{w: &w}
	s.most("reached", 0.5, 0.5, "×")
	s.most("too slow", 301, 300, "ns")
	s.print(economy.Goal{Name: "cached", Measured: 91, Limit: 90, Unit: "%", AtLeast: true})
	s.print(economy.Goal{Name: "available", Measured: 99.94, Limit: 100, Unit: "%", AtLeast: true})
	s.note("beside", duration(12_340))
	assert.Equal(t, 2, s.missed)
	var lines []string
	for line := range strings.Lines(w.String()) {
		lines = append(lines, strings.Join(strings.Fields(line), " "))
	}
	assert.Equal(t, []string{
		"reached 0.50× ≤ 0.50× ok",
		"too slow 301 ns ≤ 300 ns MISSED",
		"cached 91% ≥ 90% ok",
		"available 99.9% ≥ 100% MISSED",
		"beside 12.3 µs",
	}, lines)
}

func TestAmount(t *testing.T) {
	for v, want := range map[float64]string{
		0: "0 ns", 0.123456: "0.12 ns", 1.23456: "1.23 ns", 23.456: "23.5 ns", 1284: "1284 ns", 1284.4: "1284 ns", -2.346: "-2.35 ns",
	} {
		assert.Equal(t, want, amount(v, "ns"))
	}
	assert.Equal(t, "12.3 µs", duration(12_345))
	assert.Equal(t, "1.23 ms", duration(1_234_567))
	assert.Equal(t, "2 KiB", memory(2048))
}

func TestMedians(t *testing.T) {
	assert.InDelta(t, 3.0, median([]float64{9, 1, 3}), 0)
	assert.InDelta(t, 2.5, median([]float64{4, 1, 3, 2}), 0)
	a, b := sample{rounds: []float64{10, 200, 30}}, sample{rounds: []float64{5, 100, 30}}
	assert.InDelta(t, 2.0, over(a, b), 0, "ratios are taken round by round")
	assert.InDelta(t, 5.0, less(a, b), 0)
}

func TestParseBenchmarks(t *testing.T) {
	found, err := parseBenchmarks(`goos: linux
BenchmarkGate/10-2         	  844815	      1364 ns/op	     464 B/op	       5 allocs/op
BenchmarkGate/10-2         	  844815	      1200 ns/op	     464 B/op	       5 allocs/op
BenchmarkGate/10-2         	  844815	      9999 ns/op	     464 B/op	       7 allocs/op
BenchmarkLaunch 	   50126	     29382.5 ns/op	   13368 B/op	      30 allocs/op
PASS
`)
	require.NoError(t, err)
	gate, err := found.of("BenchmarkGate/10")
	require.NoError(t, err)
	assert.Equal(t, sample{ns: 1364, allocs: 5}, gate)
	launch, err := found.of("BenchmarkLaunch")
	require.NoError(t, err)
	assert.Equal(t, sample{ns: 29382.5, allocs: 30}, launch)
	_, err = found.of("BenchmarkTurn")
	assert.ErrorContains(t, err, "no BenchmarkTurn")
	_, err = parseBenchmarks("PASS\n")
	assert.Error(t, err)
}

// A measurement of an operation that fails is an error, and no figure.
func TestMeasure(t *testing.T) {
	m := meter{rounds: 3, each: time.Microsecond}
	broken := errors.New("broken")
	_, err := m.measure(func() error { return nil }, func() error { return broken })
	require.ErrorIs(t, err, broken)

	var kept [][]byte
	of, err := m.measure(func() error { kept = append(kept[:0], make([]byte, 1024)); return nil })
	require.NoError(t, err)
	require.Len(t, of, 1)
	assert.Len(t, of[0].rounds, 3)
	assert.Positive(t, of[0].ns)
	assert.GreaterOrEqual(t, of[0].bytes, 1024.0)
	if _, known := cpuTime(); known {
		assert.NotEmpty(t, of[0].cpu)
	}
}
