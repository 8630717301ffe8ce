package peers

import (
	"context"
	"fmt"

	"github.com/skillbay/skillbay"
	"github.com/tmc/langchaingo/llms"
)

// skillbayPeer is skillbay itself, with a default Config.
//
// Load is New: headers validated, bodies compiled, every file read, kept and
// hashed, links and sizes checked, the listing made. Call is BeforeModel on a
// conversation of 200 messages with three active skills whose bodies are
// visible; it copies the messages, keeps the State, finds the bodies, begins or
// goes on with the turn and escapes what would speak as the system. Body is a
// launch: CallTool of `skill` in a conversation that is new each time, so it
// pays for the new State as well, passes the gate and records the launch.
func skillbayPeer() Peer {
	return Peer{
		Name:    "skillbay",
		Version: "this repository",
		Load: func(tree Tree) (*Loaded, error) {
			mw, err := NewMiddleware(tree)
			if err != nil {
				return nil, err
			}
			return &Loaded{Count: len(mw.Skills()), Serve: func() (*Served, error) { return serveSkillbay(mw) }}, nil
		},
	}
}

func serveSkillbay(mw *skillbay.Middleware) (*Served, error) {
	talk, err := Talk(mw, callMessages)
	if err != nil {
		return nil, err
	}
	return &Served{
		Call: func() (string, error) {
			sent, err := mw.BeforeModel(talk.ctx, talk.history)
			if err != nil {
				return "", err
			}
			return firstText(sent), nil
		},
		Body: func(name string) (string, error) {
			ctx := skillbay.WithState(context.Background(), skillbay.NewState())
			call := toolCall("call", "skill", fmt.Sprintf(`{"skill":%q}`, name))
			result, err := mw.CallTool(ctx, []llms.MessageContent{human("Hello"), answer(call)}, call, nil)
			if err != nil {
				return "", err
			}
			return result.Parts[0].(llms.ToolCallResponse).Content, nil
		},
		Beside: []Beside{{
			Name: "first", What: "the same, for the first call of a new conversation of one message",
			Op: func() error {
				ctx := skillbay.WithState(context.Background(), skillbay.NewState())
				_, err := mw.BeforeModel(ctx, []llms.MessageContent{human("Hello")})
				return err
			},
		}, {
			Name: "new-state", What: "NewState alone, which each Body and each first call begins with",
			Op: func() error { skillbay.NewState(); return nil },
		}},
	}, nil
}

// firstText is the text of the first message: where the list of skills stands
// in a conversation whose first message is the user's.
func firstText(messages []llms.MessageContent) string {
	text, _ := messages[0].Parts[0].(llms.TextContent)
	return text.Text
}
