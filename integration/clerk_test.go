package integration

import (
	"encoding/json"
	"regexp"
	"slices"
	"strings"

	"github.com/skillbay/skillbay/integration/wire"
)

// clerk is the model of the desk: it knows what its prompt holds, and nothing
// else. Asked what it was not told, it says so.
func clerk(p wire.Prompt) wire.Reply {
	h := hear(p)
	tells := func(parts ...string) bool {
		for _, part := range parts {
			if !strings.Contains(h.all, part) {
				return false
			}
		}
		return true
	}
	verb, order, _ := strings.Cut(h.question, " ")
	switch {
	case !h.react && len(p.Tools) == 0:
		return h.say("I have no tools.") // a model calls no tool that it was not offered
	case !tells(listed):
		return h.say("I have no skills.")
	}
	switch verb {
	case "Refund": // a launch, then an allowed tool and a blocked one
		switch {
		case !h.did("skill"):
			return h.call("Let me see.", "skill", object{"skill": "refund", "args": order})
		case !tells(bodyOf(order)):
			return h.say("I was not told how.")
		case !h.did("lookup") && h.react:
			return h.call("", "lookup", object{"id": order})
		case !h.did("lookup"):
			return wire.Reply{Calls: []wire.ToolCall{
				{Name: "lookup", Arguments: arguments(object{"id": order})},
				{Name: "note", Arguments: arguments(object{"__arg1": "refunded " + order})},
			}}
		case !h.did("note"):
			return h.call("", "note", object{"__arg1": "refunded " + order})
		case !tells("found: ", "note "+blocked):
			return h.say("I saw no results.")
		}
		return h.say("Refunded " + order + ".")
	case "Fee?":
		if !tells("There is no fee.") {
			return h.say("I do not know.")
		}
		return h.say("None.")
	case "Forget": // a dismissal
		if !h.did("skill_dismiss") {
			return h.call("As you like.", "skill_dismiss", object{"skill": "refund", "reason": "done"})
		}
		return h.say("Forgotten.")
	case "Twice": // the same call again, and arguments that are no object for a tool without a schema
		if h.times("note") < 2 {
			return h.call("", "note", object{"__arg1": "1+1"})
		}
		return h.say("Noted twice.")
	}
	return h.say("Pardon?")
}

type object = map[string]any

func arguments(o object) json.RawMessage {
	data, err := json.Marshal(o)
	if err != nil {
		panic(err)
	}
	return data
}

// heard is a prompt, understood.
type heard struct {
	all      string   // everything
	question string   // the user's newest
	calls    []string // the tools called since, and answered
	react    bool     // the prompt asks for Thought, Action and Action Input
	chat     bool     // … in the words of the conversational agent
}

var (
	asked = regexp.MustCompile(`\n(?:Question|New input): (.*)\n`)
	acted = regexp.MustCompile(`Action: (\w+)\nAction Input: .*\n(?:Observation:\n)?Observation: `)
)

func hear(p wire.Prompt) heard {
	h := heard{all: p.String()}
	h.react = strings.Contains(h.all, "Action Input:") && len(p.Tools) == 0
	h.chat = strings.Contains(h.all, "\nNew input: ")
	if h.react {
		at := asked.FindAllStringSubmatchIndex(h.all, -1)
		if at == nil {
			return h
		}
		last := at[len(at)-1]
		h.question = h.all[last[2]:last[3]]
		for _, m := range acted.FindAllStringSubmatch(h.all[last[1]:], -1) {
			h.calls = append(h.calls, m[1])
		}
		return h
	}
	for _, item := range p.Items {
		switch item.Kind {
		case wire.User:
			h.question, h.calls = spoken(item.Text), nil
		case wire.Call:
			h.calls = append(h.calls, item.Name)
		}
	}
	return h
}

func (h heard) did(tool string) bool { return slices.Contains(h.calls, tool) }

func (h heard) times(tool string) (n int) {
	for _, name := range h.calls {
		if name == tool {
			n++
		}
	}
	return n
}

// say is a final answer.
func (h heard) say(text string) wire.Reply {
	switch {
	case h.react && h.chat:
		text = "Thought: Do I need to use a tool? No\nAI: " + text
	case h.react:
		text = "Thought: I now know\nFinal Answer: " + text
	}
	return wire.Reply{Text: text}
}

// call is one call, beside a text where the model may write one. Under ReAct
// the model goes on with "Observation:", as models do whose service is not told
// to stop there.
func (h heard) call(text, tool string, input object) wire.Reply {
	if !h.react {
		return wire.Reply{Text: text, Calls: []wire.ToolCall{{Name: tool, Arguments: arguments(input)}}}
	}
	given := string(arguments(input))
	if arg, ok := input["__arg1"].(string); ok {
		given = arg
	}
	return wire.Reply{Text: "Thought: Do I need to use a tool? Yes\nAction: " + tool + "\nAction Input: " + given + "\nObservation:"}
}
