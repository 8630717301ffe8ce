// Command scorecard measures skillbay's goals and says which are missed.
//
//	go run ./cmd/scorecard          the goals: name, measured, limit, ok or MISSED
//	go run ./cmd/scorecard -table   the tables of peers, in Markdown
//
// Run it in the bench module. It exits with 1 when a goal is missed, and with 2
// when something cannot be measured. Goals of time are ratios wherever they can
// be: both sides are measured in turn, several times, and the median counts, so
// that a machine which is busy with other things spoils less. It is still best
// left alone while it measures.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"testing"
	"time"

	"github.com/skillbay/skillbay/bench/economy"
	"github.com/skillbay/skillbay/bench/peers"
)

func main() {
	testing.Init()
	table := flag.Bool("table", false, "print the tables of peers instead")
	rounds := flag.Int("rounds", 9, "how often each side of a ratio is measured")
	each := flag.Duration("each", 100*time.Millisecond, "how long one measurement takes at least")
	only := flag.String("only", "", "measure `time` or `tokens` alone")
	flag.Parse()

	missed, err := run(os.Stdout, meter{rounds: max(1, *rounds), each: *each}, *table, *only)
	if err != nil {
		fmt.Fprintln(os.Stderr, "scorecard:", err)
		os.Exit(2)
	}
	if missed > 0 {
		os.Exit(1)
	}
}

// run measures and prints; it returns how many goals are missed.
func run(w io.Writer, m meter, table bool, only string) (missed int, err error) {
	if only != "" && only != "time" && only != "tokens" {
		return 0, fmt.Errorf("-only %s: neither time nor tokens", only)
	}
	forest, err := peers.NewForest()
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, forest.Clear()) }()
	if table {
		return 0, printTables(w, m, forest)
	}
	card := &scorecard{w: w}
	if only != "tokens" {
		if err := card.times(m, forest); err != nil {
			return card.missed, err
		}
	}
	if only != "time" {
		card.section("tokens")
		for _, g := range economy.Goals() {
			card.print(g)
		}
	}
	return card.missed, nil
}
