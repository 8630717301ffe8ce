package economy

import (
	"fmt"
	"io"
)

// Report writes the tables in Markdown: every workload by strategy, what the
// model's discipline means for skillbay, and the goals. Nil counts as Plain.
func Report(out io.Writer, counter Counter) error {
	e := &errWriter{out: out}
	for _, w := range append(Workloads(), Letters()) {
		if workloadTable(e, w, counter); e.err != nil {
			return e.err
		}
	}
	disciplineTable(e, counter)
	if counter == nil {
		goalTable(e)
	}
	return e.err
}

// errWriter keeps the first error of many writes.
type errWriter struct {
	out io.Writer
	err error
}

func (e *errWriter) printf(format string, args ...any) {
	if e.err == nil {
		_, e.err = fmt.Fprintf(e.out, format, args...)
	}
}

func workloadTable(e *errWriter, w *Workload, counter Counter) {
	o := Options{Counter: counter}
	disciplined := Options{Counter: counter, Discipline: 1}
	bare, keep := Run(w, NoSkills, o), Run(w, LoadAndKeep, o)
	e.printf("### %s: %s\n\n", w.Name, w.Title)
	e.printf("| strategy | model calls | tokens sent | of load and keep's | beyond the conversation's own | cached | bill | of load and keep's | written | availability |\n")
	e.printf("|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|\n")
	row := func(name string, r Result) {
		e.printf("| %s | %d | %s | %.1f %% | %s | %.1f %% | %s | %.1f %% | %s | %.0f %% |\n", name, r.Calls,
			thousands(r.Tokens), percent(r.Tokens, keep.Tokens), thousands(r.Tokens-bare.Tokens), 100*r.CachedShare(),
			thousands(int(r.Bill())), 100*r.Bill()/keep.Bill(), thousands(r.Written), 100*r.Availability())
	}
	row("*"+NoSkills.String()+"*", bare)
	row("*"+Oracle.String()+"*", Run(w, Oracle, o))
	for _, s := range Rivals() {
		row(s.String(), Run(w, s, o))
	}
	row("skillbay, nothing released", Run(w, Skillbay, o))
	row("skillbay, released when idle", Run(w, Skillbay, Options{Counter: counter, IdleTurns: ReleasedIdle}))
	row("**skillbay**", Run(w, Skillbay, disciplined))
	e.printf("\n")
}

func disciplineTable(e *errWriter, counter Counter) {
	e.printf("### How often the model releases what it no longer needs\n\n")
	e.printf("Tokens sent and bill, of %s's, and availability.\n\n", LoadAndKeep)
	e.printf("| workload | IdleTurns | 100 %% | 50 %% | 0 %% |\n|---|--:|--:|--:|--:|\n")
	for _, w := range []*Workload{Drift(), Summarised(), Mix()} {
		keep := Run(w, LoadAndKeep, Options{Counter: counter})
		for _, idle := range []int{0, ReleasedIdle} {
			e.printf("| %s | %d |", w.Name, idle)
			for _, discipline := range []float64{1, 0.5, 0} {
				r := Run(w, Skillbay, Options{Discipline: discipline, IdleTurns: idle, Counter: counter})
				e.printf(" %.1f %% / %.1f %% / %.0f %% |",
					percent(r.Tokens, keep.Tokens), 100*r.Bill()/keep.Bill(), 100*r.Availability())
			}
			e.printf("\n")
		}
	}
	e.printf("\n")
}

func goalTable(e *errWriter) {
	e.printf("### Goals\n\n| goal | measured | limit | |\n|---|--:|--:|---|\n")
	for _, g := range Goals() {
		sign, verdict := "at most", "reached"
		if g.AtLeast {
			sign = "at least"
		}
		if !g.OK() {
			verdict = "**missed**"
		}
		e.printf("| %s | %.1f %s | %s %.0f %s | %s |\n", g.Name, g.Measured, g.Unit, sign, g.Limit, g.Unit, verdict)
	}
	e.printf("\n")
}

// thousands writes n with commas.
func thousands(n int) string {
	if n < 0 {
		return "-" + thousands(-n)
	}
	if n < 1000 {
		return fmt.Sprint(n)
	}
	return fmt.Sprintf("%s,%03d", thousands(n/1000), n%1000)
}
