package peers

import (
	"fmt"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

// forest holds the trees of all benchmarks and tests of the package.
var forest *Forest

func TestMain(m *testing.M) {
	var err error
	if forest, err = NewForest(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := m.Run()
	if err := forest.Clear(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

// run measures an operation.
func run(b *testing.B, op Op) {
	b.Helper()
	b.ReportAllocs()
	for b.Loop() {
		if err := op(); err != nil {
			b.Fatal(err)
		}
	}
}

// plain and limited are the forest's trees.
func plain(t testing.TB, n int) Tree {
	t.Helper()
	tree, err := forest.Plain(n)
	require.NoError(t, err)
	return tree
}

func limited(t testing.TB, n int) Tree {
	t.Helper()
	tree, err := forest.Limited(n)
	require.NoError(t, err)
	return tree
}

// BenchmarkLoad reads N skills from a directory. The files are in the system's
// cache: what a disk costs is not measured.
func BenchmarkLoad(b *testing.B) {
	for _, n := range []int{100, 1000, 10_000} {
		b.Run(fmt.Sprintf("floor/%d", n), func(b *testing.B) { run(b, ReadAndHash(plain(b, n))) })
	}
	for _, p := range All() {
		sizes := []int{100}
		if p.Name == "skillbay" {
			sizes = []int{100, 1000, 10_000}
		}
		for _, n := range sizes {
			b.Run(fmt.Sprintf("%s/%d", p.Name, n), func(b *testing.B) { run(b, p.LoadOp(plain(b, n))) })
		}
	}
}
