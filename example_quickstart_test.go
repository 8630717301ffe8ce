// The program of README.md: one skill, langchaingo's ReAct agent and a scripted
// model. The skill allows one tool; the model tries another, which does not run.

package skillbay_test

import (
	"context"
	"fmt"
	"log"
	"testing/fstest"

	"github.com/skillbay/skillbay"
	"github.com/tmc/langchaingo/agents"
	"github.com/tmc/langchaingo/chains"
	"github.com/tmc/langchaingo/llms/fake"
	"github.com/tmc/langchaingo/tools"
)

func Example() {
	skills := fstest.MapFS{"refunds/SKILL.md": {Data: []byte("---\n" +
		"description: Refunds and returns of orders\n" +
		"allowed-tools: OrderLookup\n" +
		"---\nNever promise an amount. Look up the order first.\n")}}
	llm := fake.NewFakeLLM([]string{ // stands in for a provider's model
		"Action: skill\nAction Input: refunds",
		"Action: calculator\nAction Input: 99 * 2",
		"Final Answer: Which order is it?",
	})

	mw, err := skillbay.New(skillbay.Config{
		Skills: []skillbay.Source{skillbay.FS(skills, ".")}, // or skillbay.Dir("skills")
		Audit:  func(_ context.Context, e skillbay.Event) { fmt.Println(e.Type) },
	})
	if err != nil {
		log.Fatal(err)
	}
	agent := agents.NewOneShotAgent(llm, []tools.Tool{tools.Calculator{}})
	exec, err := mw.WrapExecutor(agents.NewExecutor(agent))
	if err != nil {
		log.Fatal(err)
	}
	ctx := skillbay.WithState(context.Background(), skillbay.NewState())
	answer, err := chains.Run(ctx, exec, "I want twice my money back.")
	fmt.Println(answer, err)

	// Output:
	// skills_announced
	// skill_invoked
	// tool_call_blocked
	// Which order is it? <nil>
}
