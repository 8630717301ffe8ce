package economy

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
)

// Measures of the plot, in the units of its view box.
const (
	plotWidth, plotHeight = 900, 460
	plotLeft, plotRight   = 66, 700 // of the axes; right of them stand the labels
	plotTop, plotBottom   = 92, 400
	labelGap              = 17 // the least distance of two labels
)

// curve is a line of the plot.
type curve struct {
	label, end string // in the legend, and at the line's end
	colour     string // legible on white and on near-black
	dash       string
	width      float64
	points     []float64 // by turn
}

// SVG is the plot of docs/economy.svg: the tokens that one model call sends, by
// turn and strategy, in the drifting conversation. The same bytes on every
// machine; no script, no font of its own, no background.
func SVG() []byte {
	w := Drift()
	perCall := func(s Strategy, o Options) []float64 {
		r := Run(w, s, o)
		points := make([]float64, len(r.Turns))
		for i, t := range r.Turns {
			points[i] = float64(t.Tokens) / float64(t.Calls)
		}
		return points
	}
	curves := []curve{
		{label: "all in the prompt", end: "all in the prompt", colour: "#d1495b", width: 2, points: perCall(InPrompt, Options{})},
		{label: "load and keep", end: "load and keep", colour: "#d07a12", width: 2, points: perCall(LoadAndKeep, Options{})},
		{
			label: fmt.Sprintf("skillbay, only IdleTurns %d releases", ReleasedIdle), end: "only IdleTurns",
			colour: "#3b82c4", width: 2, dash: "6 3", points: perCall(Skillbay, Options{IdleTurns: ReleasedIdle}),
		},
		{label: "skillbay", end: "skillbay", colour: "#1f9d6b", width: 3, points: perCall(Skillbay, Options{Discipline: 1})},
		{label: "no skills", end: "no skills", colour: "#8a8f98", width: 1.5, dash: "2 4", points: perCall(NoSkills, Options{})},
	}
	var b bytes.Buffer
	drawFrame(&b, w, curves)
	for _, c := range curves {
		drawCurve(&b, c, scaleFor(curves))
	}
	drawLabels(&b, curves, scaleFor(curves))
	drawLegend(&b, curves)
	b.WriteString("</svg>\n")
	return b.Bytes()
}

// scale turns turns and tokens into coordinates.
type scale struct {
	turns int
	top   float64 // tokens at the upper edge
}

func scaleFor(curves []curve) scale {
	most := 0.0
	for _, c := range curves {
		most = max(most, slices.Max(c.points))
	}
	const step = 5_000
	return scale{turns: len(curves[0].points), top: step * float64(int(most/step)+1)}
}

func (s scale) x(turn int) float64 {
	return plotLeft + (plotRight-plotLeft)*float64(turn-1)/float64(s.turns-1)
}

func (s scale) y(tokens float64) float64 {
	return plotBottom - (plotBottom-plotTop)*tokens/s.top
}

const grey = "#76808c" // text and axes: legible on white and on near-black

func drawFrame(b *bytes.Buffer, w *Workload, curves []curve) {
	s := scaleFor(curves)
	fmt.Fprintf(b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d" height="%d" role="img" `+
		`aria-labelledby="t d" font-family="system-ui, -apple-system, 'Segoe UI', Helvetica, Arial, sans-serif" font-size="13">`+"\n",
		plotWidth, plotHeight, plotWidth, plotHeight)
	b.WriteString("<title id=\"t\">Tokens that one model call sends, by turn of the conversation</title>\n")
	fmt.Fprintf(b, "<desc id=\"d\">%s, a body of %s tokens each. %s</desc>\n", w.Title, thousands(bodyTokens), describe(curves))
	fmt.Fprintf(b, `<text x="%d" y="28" font-size="17" font-weight="600" fill="%s">Tokens that one model call sends</text>`+"\n", plotLeft, grey)
	fmt.Fprintf(b, `<text x="%d" y="48" fill="%s">A conversation of %s; each topic has a skill of %s tokens</text>`+"\n",
		plotLeft, grey, w.Title, thousands(bodyTokens))
	for tokens := 0.0; tokens <= s.top; tokens += 5000 {
		y := s.y(tokens)
		fmt.Fprintf(b, `<line x1="%d" x2="%d" y1="%.1f" y2="%.1f" stroke="%s" stroke-opacity="0.25"/>`+"\n", plotLeft, plotRight, y, y, grey)
		fmt.Fprintf(b, `<text x="%d" y="%.1f" text-anchor="end" fill="%s">%s</text>`+"\n", plotLeft-8, y+4.5, grey, thousands(int(tokens)))
	}
	for turn := 1; turn <= s.turns; turn++ {
		if turn > 1 && w.turns[turn-1].need != w.turns[turn-2].need {
			fmt.Fprintf(b, `<path d="M%.1f %d v7" stroke="%s"/>`+"\n", s.x(turn), plotBottom, grey)
		}
		if turn == 1 || turn%5 == 0 {
			fmt.Fprintf(b, `<text x="%.1f" y="%d" text-anchor="middle" fill="%s">%d</text>`+"\n", s.x(turn), plotBottom+24, grey, turn)
		}
	}
	fmt.Fprintf(b, `<line x1="%d" x2="%d" y1="%d" y2="%d" stroke="%s"/>`+"\n", plotLeft, plotRight, plotBottom, plotBottom, grey)
	fmt.Fprintf(b, `<text x="%d" y="%d" text-anchor="middle" fill="%s">turn (a tick below the axis: the customer changes the topic)</text>`+"\n",
		(plotLeft+plotRight)/2, plotBottom+46, grey)
}

// describe says in words what the lines show at their ends.
func describe(curves []curve) string {
	var parts []string
	for _, c := range curves {
		parts = append(parts, fmt.Sprintf("%s: %s", c.label, thousands(int(c.points[len(c.points)-1]))))
	}
	return "In the last turn " + strings.Join(parts, "; ") + "."
}

func drawCurve(b *bytes.Buffer, c curve, s scale) {
	fmt.Fprintf(b, `<polyline fill="none" stroke="%s" stroke-width="%g" stroke-linejoin="round"`, c.colour, c.width)
	if c.dash != "" {
		fmt.Fprintf(b, ` stroke-dasharray="%s"`, c.dash)
	}
	b.WriteString(` points="`)
	for i, tokens := range c.points {
		if i > 0 {
			b.WriteByte(' ')
		}
		fmt.Fprintf(b, "%.1f,%.1f", s.x(i+1), s.y(tokens))
	}
	b.WriteString("\"/>\n")
}

// drawLabels names every line at its right end, apart from one another.
func drawLabels(b *bytes.Buffer, curves []curve, s scale) {
	order := make([]int, len(curves))
	for i := range order {
		order[i] = i
	}
	end := func(i int) float64 { return s.y(curves[i].points[len(curves[i].points)-1]) }
	slices.SortStableFunc(order, func(i, j int) int { return int(10*end(i)) - int(10*end(j)) })
	y := 0.0
	for _, i := range order {
		y = max(end(i)+4.5, y+labelGap)
		c := curves[i]
		last := thousands(int(c.points[len(c.points)-1]))
		fmt.Fprintf(b, `<text x="%d" y="%.1f" fill="%s" font-weight="600">%s</text>`+"\n", plotRight+10, y, c.colour, last+" "+c.end)
	}
}

func drawLegend(b *bytes.Buffer, curves []curve) {
	x := float64(plotLeft)
	for _, c := range curves {
		dash := ""
		if c.dash != "" {
			dash = fmt.Sprintf(` stroke-dasharray="%s"`, c.dash)
		}
		fmt.Fprintf(b, `<line x1="%.1f" x2="%.1f" y1="66" y2="66" stroke="%s" stroke-width="%g"%s/>`+"\n", x, x+22, c.colour, c.width, dash)
		fmt.Fprintf(b, `<text x="%.1f" y="70.5" fill="%s">%s</text>`+"\n", x+28, grey, c.label)
		x += 28 + 6.6*float64(len(c.label)) + 24
	}
}
