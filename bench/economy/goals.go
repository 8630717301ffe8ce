package economy

import (
	"fmt"
	"math"
)

// A Goal is a figure that skillbay is to reach, and where it stands.
type Goal struct {
	Name            string
	Measured, Limit float64
	Unit            string
	AtLeast         bool // the limit is the least allowed; else the most
}

// OK reports whether the goal is reached.
func (g Goal) OK() bool {
	if g.AtLeast {
		return g.Measured >= g.Limit
	}
	return g.Measured <= g.Limit
}

// ReleasedIdle is the Options.IdleTurns that goals and tables are about.
const ReleasedIdle = 3

// Goals plays all workloads and returns the goals of skillbay with a model that
// releases what it no longer needs, and of its idle release with one that never
// does. Percentages are of another strategy's figure in the same workload.
func Goals() []Goal {
	var goals []Goal
	most := func(limit, measured float64, name string, args ...any) {
		goals = append(goals, Goal{Name: fmt.Sprintf(name, args...), Measured: measured, Limit: limit, Unit: "%"})
	}
	least := func(limit, measured float64, name string, args ...any) {
		goals = append(goals, Goal{Name: fmt.Sprintf(name, args...), Measured: measured, Limit: limit, Unit: "%", AtLeast: true})
	}
	for _, w := range Workloads() {
		bay := Run(w, Skillbay, Options{Discipline: 1})
		prompt, keep := Run(w, InPrompt, Options{}), Run(w, LoadAndKeep, Options{})
		switch w.Name {
		case "drift", "mix":
			idle := Run(w, Skillbay, Options{IdleTurns: ReleasedIdle})
			most(45, percent(bay.Tokens, keep.Tokens), "%s: tokens of %s's", w.Name, LoadAndKeep)
			most(30, percent(bay.Tokens, prompt.Tokens), "%s: tokens of %s's", w.Name, InPrompt)
			most(65, percent(idle.Tokens, keep.Tokens),
				"%s: tokens of %s's, nothing released but after %d idle turns", w.Name, LoadAndKeep, ReleasedIdle)
			if w.summary { // what keeps bodies for ever, also through summaries
				again := Run(w, LoadAndReattach, Options{})
				most(45, percent(bay.Tokens, again.Tokens), "%s: tokens of %s's", w.Name, LoadAndReattach)
				most(65, percent(idle.Tokens, again.Tokens),
					"%s: tokens of %s's, nothing released but after %d idle turns", w.Name, LoadAndReattach, ReleasedIdle)
			}
		case "catalogue":
			most(3, percent(bay.Tokens, prompt.Tokens), "%s: tokens of %s's", w.Name, InPrompt)
		}
		least(90, 100*bay.Steady(), "%s: cached in steady state", w.Name)
		most(102, 100*bay.Bill()/cheapest(w), "%s: bill, of the cheapest rival's with full availability", w.Name)
		least(100, 100*bay.Availability(), "%s: availability", w.Name)
	}
	return goals
}

// cheapest is the lowest bill of a rival that loses no guidance.
func cheapest(w *Workload) float64 {
	least := math.Inf(1)
	for _, s := range Rivals() {
		if r := Run(w, s, Options{}); r.Availability() == 1 {
			least = min(least, r.Bill())
		}
	}
	return least
}

func percent(part, whole int) float64 { return 100 * float64(part) / float64(whole) }
