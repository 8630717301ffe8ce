package peers

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"trpc.group/trpc-go/trpc-agent-go/agent/llmagent"
	"trpc.group/trpc-go/trpc-agent-go/model"
	"trpc.group/trpc-go/trpc-agent-go/runner"
	"trpc.group/trpc-go/trpc-agent-go/skill"
)

// trpcPeer is the skill repository of trpc-agent-go in its agent.
//
// Load reads every SKILL.md and keeps name, description and path: no
// validation, bodies, files or digest. Call is a whole run of its runner with a
// model that answers at once and a new session, since its flow cannot be called
// in parts: the list is made in it from a look at every file's time, unescaped
// and without a look at who may see what. The run of the same agent without
// skills, and the data of the list alone, stand beside it. Body reads and parses
// the files of one skill: no gate, arguments or record.
func trpcPeer() Peer {
	return Peer{
		Name:    "trpc",
		Version: "trpc.group/trpc-go/trpc-agent-go v1.11.2",
		Lacks: Lacks{
			Load: "descriptions only: no validation, bodies, files or digest",
			Call: "a whole run of its runner, with one message; stats every file; no escaping, budget or bodies",
			Body: "reads the disk; no gate, arguments or record",
		},
		Load: loadTRPC,
	}
}

func loadTRPC(tree Tree) (*Loaded, error) {
	repo, err := skill.NewFSRepository(tree.Dir)
	if err != nil {
		return nil, err
	}
	// Counting would read the files' times once more and be measured: the count
	// is taken on trust here and checked in Serve.
	return &Loaded{Count: tree.Skills, Serve: func() (*Served, error) {
		if got := len(repo.Summaries()); got != tree.Skills {
			return nil, fmt.Errorf("trpc loaded %d skills of %d", got, tree.Skills)
		}
		return serveTRPC(repo), nil
	}}, nil
}

func serveTRPC(repo *skill.FSRepository) *Served {
	ctx := context.Background()
	with, bare := newTRPCRun(llmagent.WithSkills(repo)), newTRPCRun()
	return &Served{
		Call: func() (string, error) { return with.run(ctx) },
		Body: func(name string) (string, error) {
			s, err := skill.GetForContext(ctx, repo, name)
			if err != nil {
				return "", err
			}
			return s.Body, nil
		},
		Beside: []Beside{{
			Name: "bare", What: "the same run without skills",
			Op: func() error { _, err := bare.run(ctx); return err },
		}, {
			Name: "summaries", What: "the data of the list alone, nothing rendered",
			Op: func() error {
				if len(skill.SummariesForContext(ctx, repo)) == 0 {
					return errors.New("trpc has no summaries")
				}
				return nil
			},
		}},
	}
}

// trpcRun runs an agent whose model answers at once.
type trpcRun struct {
	model  *trpcModel
	runner runner.Runner
	n      int
}

func newTRPCRun(opts ...llmagent.Option) *trpcRun {
	m := &trpcModel{}
	agent := llmagent.New("agent", append([]llmagent.Option{llmagent.WithModel(m)}, opts...)...)
	return &trpcRun{model: m, runner: runner.NewRunner("bench", agent)}
}

// run has one user message answered in a session of its own, and returns the
// system text that the model was sent.
func (r *trpcRun) run(ctx context.Context) (string, error) {
	r.n++
	events, err := r.runner.Run(ctx, "user", strconv.Itoa(r.n), model.NewUserMessage("Hello"))
	if err != nil {
		return "", err
	}
	for e := range events {
		if e.Error != nil {
			return "", errors.New(e.Error.Message)
		}
	}
	return r.model.system, nil
}

// trpcModel answers at once, and remembers the system text of its last request.
type trpcModel struct{ system string }

func (m *trpcModel) Info() model.Info { return model.Info{Name: "scripted"} }

func (m *trpcModel) GenerateContent(_ context.Context, request *model.Request) (<-chan *model.Response, error) {
	m.system = ""
	for _, msg := range request.Messages {
		if msg.Role == model.RoleSystem {
			m.system = msg.Content
		}
	}
	responses := make(chan *model.Response, 1)
	responses <- &model.Response{Done: true, Choices: []model.Choice{{Message: model.NewAssistantMessage("done")}}}
	close(responses)
	return responses, nil
}
