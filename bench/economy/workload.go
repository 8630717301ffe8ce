package economy

import (
	"fmt"
	"math/rand/v2"
)

// The sizes of a conversation in a business service, in tokens of the default
// count.
const (
	systemTokens = 200 // the host's system prompt
	bodyTokens   = 2_000
	longTokens   = 5_000 // the body of the long procedure

	summaryTokens = 120 // a summary of what was cut
	summaryEvery  = 10  // turns from one summary to the next
	turnsKept     = 1   // turns that a summary leaves as they were

	visitMin, visitMax = 2, 5 // turns on a topic before the customer turns to another

	textSeed = 2026 // of all texts
)

// manner is how people write, in tokens. Ranges are drawn from evenly. The longer
// the messages, the less it matters what is done with bodies: every strategy sends
// the conversation itself.
type manner struct {
	name         string
	user, answer [2]int // a customer's message, and the model's answer
	calls        [2]int // business calls in a turn, one after the other
	result       [2]int // what a business call returns
}

var (
	chatting = manner{"live chat", [2]int{8, 32}, [2]int{20, 60}, [2]int{1, 1}, [2]int{15, 45}}
	writing  = manner{"letters", [2]int{40, 120}, [2]int{80, 200}, [2]int{1, 2}, [2]int{100, 300}}
)

// CachedPrice is the price of a cached token, where a fresh one costs 1.
const CachedPrice = 0.1

// A Workload is a conversation as the customer leads it, whatever strategy
// answers. Workloads returns them.
type Workload struct {
	// Name is one word; Title says what happens.
	Name, Title string

	skills  []skill
	manner  manner
	turns   []turn
	summary bool // the host summarises every summaryEvery turns
}

// Turns is the number of the customer's messages.
func (w *Workload) Turns() int { return len(w.turns) }

// turn is what a customer says, and what comes of it.
type turn struct {
	need    string // the skill whose guidance the model needs; empty: none
	user    string
	tool    string
	results []string // of the business calls
	answer  string
}

// Workloads returns the five, in order.
func Workloads() []*Workload {
	return []*Workload{Drift(), Procedure(), Summarised(), Catalogue(), Mix()}
}

// Drift is a conversation of 40 turns that drifts over 8 topics and comes back
// to some.
func Drift() *Workload {
	return drifting(chatting)
}

// Letters is the drift of people who write at length.
func Letters() *Workload {
	w := drifting(writing)
	w.Name, w.Title = "letters", w.Title+", in long messages with two business calls each"
	return w
}

func drifting(m manner) *Workload {
	w := &Workload{Name: "drift", Title: "40 turns over 8 topics", skills: catalogue(8, bodyTokens, bodyTokens), manner: m}
	w.play(drift(40, 0, 8, 1))
	return w
}

// Procedure is one long procedure over 15 turns, in a service of 8 skills.
func Procedure() *Workload {
	w := &Workload{Name: "procedure", Title: "one long procedure over 15 turns", skills: catalogue(8, bodyTokens, longTokens), manner: chatting}
	w.play(make([]int, 15))
	return w
}

// Summarised is the conversation of Drift, word for word, summarised every 10
// turns.
func Summarised() *Workload {
	w := &Workload{
		Name: "summarised", Title: "40 turns over 8 topics, summarised every 10 turns",
		skills: catalogue(8, bodyTokens, bodyTokens), manner: chatting, summary: true,
	}
	w.play(drift(40, 0, 8, 1))
	return w
}

// Catalogue is a short conversation in a service of 200 skills, two of which it
// needs.
func Catalogue() *Workload {
	w := &Workload{Name: "catalogue", Title: "200 skills, two used, 12 turns", skills: catalogue(200, bodyTokens, bodyTokens), manner: chatting}
	w.play([]int{-1, 57, 57, 57, 57, 57, 143, 143, 143, 143, 143, -1})
	return w
}

// Mix is all of it in 60 turns: 200 skills, small talk, a procedure of 15
// turns, topics that come and go, summaries.
func Mix() *Workload {
	w := &Workload{
		Name: "mix", Title: "the 60-turn mix of all",
		skills: catalogue(200, bodyTokens, longTokens), manner: chatting, summary: true,
	}
	order := []int{none, none}
	order = append(order, drift(20, 1, 8, 5)...)
	order = append(order, make([]int, 15)...)
	order = append(order, none)
	order = append(order, drift(20, 1, 8, 7)...)
	w.play(append(order, none, none))
	return w
}

// none is the topic of small talk.
const none = -1

// drift is a walk over as many topics from the first on: visits of a few turns,
// every topic once before any comes again.
func drift(turns, first, topics int, seed uint64) []int {
	r := rand.New(rand.NewPCG(textSeed, 1000+seed))
	var order []int
	next := r.Perm(topics)
	for len(order) < turns {
		if len(next) == 0 {
			next = r.Perm(topics)
			if last := order[len(order)-1] - first; next[0] == last { // a visit ends with another topic
				next = append(next[1:], last)
			}
		}
		for range between(r, visitMin, visitMax) {
			order = append(order, first+next[0])
		}
		next = next[1:]
	}
	return order[:turns]
}

func between(r *rand.Rand, low, high int) int { return low + r.IntN(high-low+1) }

func in(r *rand.Rand, within [2]int) int { return between(r, within[0], within[1]) }

// play writes the turns: one for each topic of order.
func (w *Workload) play(order []int) {
	r := rand.New(rand.NewPCG(textSeed, uint64(len(w.skills)*1000+len(order))))
	for n, topic := range order {
		t := turn{tool: tools[n%len(tools)]}
		if topic != none {
			t.need, t.tool = w.skills[topic].name, w.skills[topic].tool
		}
		t.user = fmt.Sprintf("Case %d. ", 100+n) + prose(r, in(r, w.manner.user)-3)
		for range in(r, w.manner.calls) {
			t.results = append(t.results, prose(r, in(r, w.manner.result)))
		}
		t.answer = prose(r, in(r, w.manner.answer))
		w.turns = append(w.turns, t)
	}
}

// system is the host's system prompt.
func system() string { return prose(rand.New(rand.NewPCG(textSeed, 1)), systemTokens) }

// summarised is the host's summary after n turns. It names the skills that were
// used, as summaries do.
func summarised(n int, used []string) string {
	text := prose(rand.New(rand.NewPCG(textSeed, uint64(5000+n))), summaryTokens)
	for _, name := range used {
		text += " The skill " + name + " was loaded."
	}
	return "Summary of the conversation so far. " + text
}
