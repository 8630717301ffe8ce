package main

import (
	"errors"
	"flag"
	"slices"
	"testing"
	"time"

	"github.com/skillbay/skillbay/bench/peers"
)

// meter measures operations.
type meter struct {
	rounds int
	each   time.Duration
}

// sample is what one operation costs: the medians over all rounds.
type sample struct {
	ns, bytes, allocs float64

	rounds []float64 // ns in each round
	cpu    []float64 // ns of CPU time in each round; none where that is not known
}

// inCPU is the sample with CPU time for time.
func (s sample) inCPU() sample { return sample{ns: median(s.cpu), rounds: s.cpu} }

// measure runs operations in turn, round after round, so that what disturbs the
// machine disturbs all of them.
func (m meter) measure(ops ...peers.Op) ([]sample, error) {
	if err := flag.Set("test.benchtime", m.each.String()); err != nil {
		return nil, err
	}
	samples := make([]sample, len(ops))
	bytes, allocs := make([][]float64, len(ops)), make([][]float64, len(ops))
	for range m.rounds {
		for i, op := range ops {
			r, cpu, err := benchmark(op)
			if err != nil {
				return nil, err
			}
			samples[i].rounds = append(samples[i].rounds, float64(r.T.Nanoseconds())/float64(r.N))
			if cpu > 0 {
				samples[i].cpu = append(samples[i].cpu, float64(cpu.Nanoseconds())/float64(r.N))
			}
			bytes[i] = append(bytes[i], float64(r.AllocedBytesPerOp()))
			allocs[i] = append(allocs[i], float64(r.AllocsPerOp()))
		}
	}
	for i := range samples {
		s := &samples[i]
		s.ns, s.bytes, s.allocs = median(s.rounds), median(bytes[i]), median(allocs[i])
	}
	return samples, nil
}

// benchmark measures one operation once, and the CPU time of all its iterations,
// on all cores; 0 where that is not known. testing.Benchmark says nothing of an
// error, so it is carried out here.
func benchmark(op peers.Op) (r testing.BenchmarkResult, cpu time.Duration, err error) {
	r = testing.Benchmark(func(b *testing.B) {
		b.ReportAllocs()
		before, known := cpuTime()
		for b.Loop() {
			if err = op(); err != nil {
				b.FailNow()
			}
		}
		if after, ok := cpuTime(); known && ok {
			cpu = after - before
		}
	})
	if err == nil && r.N == 0 {
		err = errors.New("nothing was measured")
	}
	return r, cpu, err
}

// over is the median of the ratios of a to b, round by round.
func over(a, b sample) float64 {
	ratios := make([]float64, min(len(a.rounds), len(b.rounds)))
	for i := range ratios {
		ratios[i] = a.rounds[i] / b.rounds[i]
	}
	return median(ratios)
}

// less is the median of the differences of a and b, round by round, in ns.
func less(a, b sample) float64 {
	differences := make([]float64, len(a.rounds))
	for i := range differences {
		differences[i] = a.rounds[i] - b.rounds[i]
	}
	return median(differences)
}

func median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	n := len(sorted)
	if n == 0 {
		return 0
	}
	return (sorted[(n-1)/2] + sorted[n/2]) / 2
}
