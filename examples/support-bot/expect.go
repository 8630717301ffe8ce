package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/skillbay/skillbay"
)

// moment is what an expectation may look at: the turn just played, and the bot.
type moment struct {
	record
	bot *bot
}

// expectation is one thing that must be true after a turn.
type expectation struct {
	want string // completes "expected …"
	met  func(moment) bool
}

// verify returns the first expectation that is not met, as an error.
func verify(m moment, expectations []expectation) error {
	for _, e := range expectations {
		if !e.met(m) {
			return fmt.Errorf("turn %d: expected %s\n  tools that ran: %s\n  events: %s",
				m.turn, e.want, strings.Join(m.ran, ", "), strings.Join(eventNames(m.events), ", "))
		}
	}
	return nil
}

// eventNames returns "type subject" of every event.
func eventNames(events []skillbay.Event) []string {
	names := make([]string, len(events))
	for i, e := range events {
		names[i] = e.Type + " " + subject(e)
	}
	return names
}

// subject returns what an event is about: a skill, a blocked tool, or skills.
func subject(e skillbay.Event) string {
	switch {
	case e.Skill != "":
		return e.Skill
	case e.Tool != "":
		return e.Tool
	}
	return strings.Join(e.Skills, ", ")
}

// ranOnly: exactly these business tools ran, in this order.
func ranOnly(tools ...string) expectation {
	return expectation{
		fmt.Sprintf("exactly these business tools to run: %q", tools),
		func(m moment) bool { return slices.Equal(m.ran, tools) },
	}
}

// event: one event of this type about this tool or skill, with this detail
// ("" accepts any).
func event(kind, subject, detail string) expectation {
	return expectation{
		fmt.Sprintf("one event %s of %s %s", kind, subject, detail),
		func(m moment) bool {
			n := 0
			for _, e := range m.events {
				about := e.Skill == subject || e.Tool == subject || e.Tool == "" && slices.Contains(e.Skills, subject)
				if e.Type == kind && about && (detail == "" || e.Detail == detail) {
					n++
				}
			}
			return n == 1
		},
	}
}

// noEvent: no event of this type.
func noEvent(kind string) expectation {
	return expectation{
		"no event " + kind,
		func(m moment) bool {
			return !slices.ContainsFunc(m.events, func(e skillbay.Event) bool { return e.Type == kind })
		},
	}
}

// bodyOf returns the line that begins a skill's body in a request.
func bodyOf(skill string) string { return baseLine + "skill://" + skill + "\n" }

// sentFirst: the turn's first request holds the text.
func sentFirst(what, text string) expectation {
	return expectation{
		"the first request of the turn to hold " + what,
		func(m moment) bool { return len(m.requests) > 0 && strings.Contains(m.requests[0], text) },
	}
}

// notSentLast: the turn's last request does not hold the text.
func notSentLast(what, text string) expectation {
	return expectation{
		"the last request of the turn to be free of " + what,
		func(m moment) bool {
			return len(m.requests) > 0 && !strings.Contains(m.requests[len(m.requests)-1], text)
		},
	}
}

// says: the answer holds the text.
func says(text string) expectation {
	return expectation{
		fmt.Sprintf("the agent to say %q", text),
		func(m moment) bool { return strings.Contains(m.answer, text) },
	}
}

// active: exactly these skills are active, in whatever order.
func active(skills ...string) expectation {
	slices.Sort(skills)
	return expectation{
		fmt.Sprintf("these skills to be active: %q", skills),
		func(m moment) bool { return slices.Equal(slices.Sorted(slices.Values(m.bot.state.Active())), skills) },
	}
}

// ledger: a ledger of the State, reduced to names, is exactly this.
func ledger(name string, read func(*skillbay.State) []string, want ...string) expectation {
	return expectation{
		fmt.Sprintf("the ledger %q to be %q", name, want),
		func(m moment) bool { return slices.Equal(slices.Sorted(slices.Values(read(m.bot.state))), want) },
	}
}
