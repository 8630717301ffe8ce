package economy

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/skillbay/skillbay"
	"github.com/tmc/langchaingo/llms"
)

// Options of a run. The zero value is a model that never releases a skill,
// counted as skillbay counts.
type Options struct {
	// Discipline is how often, from 0 to 1, the model calls skill_dismiss for the
	// skill of the topic that it turns away from. It has one chance a visit.
	Discipline float64
	// Seed draws those chances.
	Seed uint64
	// IdleTurns is skillbay's Config.IdleTurns.
	IdleTurns int
	// Counter counts tokens. Nil: Plain.
	Counter Counter
}

// Cost is what calls cost, in tokens.
type Cost struct {
	Calls   int // model calls
	Tokens  int // sent
	Cached  int // of those, a prefix of the call before
	Written int // by the model
}

func (c *Cost) add(o Cost) {
	c.Calls += o.Calls
	c.Tokens += o.Tokens
	c.Cached += o.Cached
	c.Written += o.Written
}

// Bill is the price of what was sent, in fresh tokens.
func (c Cost) Bill() float64 { return float64(c.Tokens-c.Cached) + CachedPrice*float64(c.Cached) }

// TurnCost is what one turn cost.
type TurnCost struct {
	Cost
	Skill     string // the skill that the turn needed; empty: none
	Available bool   // it was there, whole, whenever it was needed
}

// Result is a conversation's account.
type Result struct {
	Cost  // of all turns
	Turns []TurnCost
}

// Availability is the share of turns that need a skill and have it.
func (r *Result) Availability() float64 {
	need, have := 0, 0
	for _, t := range r.Turns {
		if t.Skill != "" {
			need++
			if t.Available {
				have++
			}
		}
	}
	if need == 0 {
		return 1
	}
	return float64(have) / float64(need)
}

// CachedShare is the share of the tokens sent that is cached.
func (c Cost) CachedShare() float64 { return float64(c.Cached) / float64(c.Tokens) }

// Steady is the cached share of the tokens sent after the first fifth of the
// turns.
func (r *Result) Steady() float64 {
	var c Cost
	for _, t := range r.Turns[len(r.Turns)/5:] {
		c.add(t.Cost)
	}
	return c.CachedShare()
}

// maxCalls bounds the model calls of a turn: more are a fault of this package.
const maxCalls = 16

// Run plays the workload under the strategy. It panics on an error, which is a
// fault of this package or of skillbay's: nothing here depends on the machine.
func Run(w *Workload, s Strategy, o Options) Result {
	r, err := play(w, s, o)
	if err != nil {
		panic(fmt.Sprintf("economy: %s, %s: %v", w.Name, s, err))
	}
	return r
}

func play(w *Workload, s Strategy, o Options) (Result, error) {
	if o.Counter == nil {
		o.Counter = Plain{}
	}
	m := &model{
		w: w, meter: newMeter(o.Counter),
		discipline: o.Discipline, coins: rand.New(rand.NewPCG(o.Seed, 7)),
	}
	ctx := context.Background()
	var c chat
	var err error
	if s == Skillbay {
		ctx = skillbay.WithState(ctx, skillbay.NewState())
		c, err = newBay(w, m, o)
	} else {
		c, err = newPlain(w, s, m)
	}
	if err != nil {
		return Result{}, err
	}

	var r Result
	var history []llms.MessageContent
	var used []string
	for n := range w.turns {
		t := &w.turns[n]
		if w.summary && n > 0 && n%summaryEvery == 0 {
			head, err := c.summary(ctx, summarised(n, used))
			if err != nil {
				return r, err
			}
			history = append([]llms.MessageContent{head}, lastTurns(w, history)...)
		}
		m.cost = Cost{}
		if history, err = converse(ctx, c, t, history); err != nil {
			return r, fmt.Errorf("turn %d: %w", n+1, err)
		}
		if t.need != "" && !slices.Contains(used, t.need) {
			used = append(used, t.need)
		}
		r.Turns = append(r.Turns, TurnCost{Cost: m.cost, Skill: t.need, Available: m.had})
		r.add(m.cost)
	}
	return r, nil
}

// converse plays one turn: the loop of README.
func converse(ctx context.Context, c chat, t *turn, history []llms.MessageContent) ([]llms.MessageContent, error) {
	done := 0
	next := func(context.Context, llms.ToolCall) (string, error) {
		done++
		return t.results[done-1], nil
	}
	history = append(history, llms.TextParts(llms.ChatMessageTypeHuman, t.user))
	for range maxCalls {
		resp, err := c.send(ctx, history)
		if err != nil {
			return nil, err
		}
		ai, calls := skillbay.Answer(resp)
		history = append(history, ai)
		if len(calls) == 0 {
			return history, nil
		}
		results, err := c.run(ctx, history, calls, next)
		if err != nil {
			return nil, err
		}
		history = append(history, results...)
	}
	return nil, fmt.Errorf("the model does not come to an end")
}

// lastTurns is the end of the history that a summary leaves as it is.
func lastTurns(w *Workload, history []llms.MessageContent) []llms.MessageContent {
	for i, left := len(history)-1, turnsKept; i >= 0; i-- {
		if history[i].Role == llms.ChatMessageTypeHuman && w.said(human(history[i])) != nil {
			if left--; left == 0 {
				return history[i:]
			}
		}
	}
	return history
}
