package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
)

// library is where the module under measurement is.
const library = "github.com/skillbay/skillbay"

// inside are results of the library's own benchmarks, by name.
type inside map[string][]sample

// ownBenchmarks runs those of the library's benchmarks that look at what cannot
// be called from outside, several times.
func ownBenchmarks() (inside, error) {
	dir, err := output("", "go", "list", "-m", "-f", "{{.Dir}}", library)
	if err != nil {
		return nil, fmt.Errorf("%w (run scorecard in the bench module)", err)
	}
	out, err := output(strings.TrimSpace(dir), "go", "test", "-run", "^$", "-bench", "^(BenchmarkGate|BenchmarkLaunch)$",
		"-benchmem", "-benchtime", "200ms", "-count", "5", ".")
	if err != nil {
		return nil, err
	}
	return parseBenchmarks(out)
}

func output(dir, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(context.Background(), name, args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOWORK=off")
	var problems bytes.Buffer
	cmd.Stderr = &problems
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("%s: %w\n%s%s", cmd, err, out, problems.String())
	}
	return string(out), nil
}

// parseBenchmarks reads what `go test -bench -benchmem` prints: lines of a name,
// a count, and pairs of a figure and its unit.
func parseBenchmarks(out string) (inside, error) {
	found := inside{}
	for line := range strings.Lines(out) {
		fields := strings.Fields(line)
		if len(fields) < 4 || !strings.HasPrefix(fields[0], "Benchmark") {
			continue
		}
		var s sample
		for i := 2; i+1 < len(fields); i += 2 {
			v, err := strconv.ParseFloat(fields[i], 64)
			if err != nil {
				return nil, fmt.Errorf("a benchmark's line %q: %w", line, err)
			}
			switch fields[i+1] {
			case "ns/op":
				s.ns = v
			case "allocs/op":
				s.allocs = v
			}
		}
		name, _, _ := strings.Cut(fields[0], "-")
		found[name] = append(found[name], s)
	}
	if len(found) == 0 {
		return nil, errors.New("the library's benchmarks printed nothing")
	}
	return found, nil
}

// of is the median of a benchmark's runs.
func (in inside) of(name string) (sample, error) {
	all := in[name]
	if len(all) == 0 {
		return sample{}, fmt.Errorf("the library has no %s", name)
	}
	var ns, allocs []float64
	for _, s := range all {
		ns, allocs = append(ns, s.ns), append(allocs, s.allocs)
	}
	return sample{ns: median(ns), allocs: median(allocs)}, nil
}
