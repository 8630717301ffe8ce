package main

import (
	"fmt"
	"io"
	"math"
	"strconv"

	"github.com/skillbay/skillbay/bench/economy"
)

// scorecard prints goals as they are measured, and counts those that are missed.
type scorecard struct {
	w      io.Writer
	missed int
}

// columns of a line.
const columns = "%-74s %11s %13s  %s\n"

// section begins a group of goals.
func (s *scorecard) section(name string) {
	fmt.Fprintf(s.w, "\n"+columns, name, "measured", "limit", "")
}

// print writes a goal's line.
func (s *scorecard) print(g economy.Goal) {
	sign, verdict := "≤", "ok"
	if g.AtLeast {
		sign = "≥"
	}
	if !g.OK() {
		verdict = "MISSED"
		s.missed++
	}
	fmt.Fprintf(s.w, columns, g.Name, amount(g.Measured, g.Unit), sign+" "+amount(g.Limit, g.Unit), verdict)
}

// most prints a goal that must not be exceeded.
func (s *scorecard) most(name string, measured, limit float64, unit string) {
	s.print(economy.Goal{Name: name, Measured: measured, Limit: limit, Unit: unit})
}

// note writes a figure without a limit, that helps to read the others.
func (s *scorecard) note(name, figure string) {
	fmt.Fprintf(s.w, columns, "  "+name, figure, "", "")
}

// amount is a figure with its unit, to three digits where it has so many.
func amount(v float64, unit string) string {
	after := max(0, 2-digits(v))
	if v == math.Trunc(v) {
		after = 0
	}
	text := strconv.FormatFloat(v, 'f', after, 64)
	if unit == "" || unit == "×" || unit == "%" {
		return text + unit
	}
	return text + " " + unit
}

// digits are those before the point, less one.
func digits(v float64) int {
	if v = math.Abs(v); v < 1 {
		return 0
	}
	return int(math.Log10(v))
}
