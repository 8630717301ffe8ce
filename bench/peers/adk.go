package peers

import (
	"context"
	"os"

	"google.golang.org/adk/v2/model"
	"google.golang.org/adk/v2/tool/skilltoolset"
	"google.golang.org/adk/v2/tool/skilltoolset/skill"
)

// adkPeer is adk-go's skill toolset over its complete preload: the way in which
// it keeps disks out of model calls.
//
// Load validates headers strictly and keeps every file, but makes no digest and
// parses each SKILL.md several times; links are followed. Call renders the list
// anew, escaped, into a request; it looks at no messages and has no visibility,
// budget or state. Body is a look-up of two maps: no gate, arguments or record.
func adkPeer() Peer {
	return Peer{
		Name:    "adk",
		Version: "google.golang.org/adk/v2 v2.2.0",
		Lacks: Lacks{
			Load: "complete preload; no digest, links followed, one bad skill fails all",
			Call: "no messages, visibility, budget or state",
			Body: "map look-ups: no gate, arguments or record",
		},
		Load: func(tree Tree) (*Loaded, error) {
			ctx := context.Background()
			source, _, err := skill.WithCompletePreloadSource(ctx, skill.NewFileSystemSource(os.DirFS(tree.Dir)))
			if err != nil {
				return nil, err
			}
			return loadedADK(ctx, source)
		},
	}
}

// adkPlainPeer is the same toolset without a preload.
//
// Load validates headers and keeps nothing: no bodies, no files, no digest.
// Call and Body read the disk each time; otherwise they lack what adkPeer lacks.
func adkPlainPeer() Peer {
	return Peer{
		Name:    "adk-plain",
		Version: "google.golang.org/adk/v2 v2.2.0",
		Lacks: Lacks{
			Load: "headers only: no bodies, files or digest",
			Call: "reads the disk; no messages, visibility, budget or state",
			Body: "reads the disk; no gate, arguments or record",
		},
		Load: func(tree Tree) (*Loaded, error) {
			return loadedADK(context.Background(), skill.NewFileSystemSource(os.DirFS(tree.Dir)))
		},
	}
}

func loadedADK(ctx context.Context, source skill.Source) (*Loaded, error) {
	list, err := source.ListFrontmatters(ctx)
	if err != nil {
		return nil, err
	}
	return &Loaded{Count: len(list), Serve: func() (*Served, error) { return serveADK(ctx, source) }}, nil
}

func serveADK(ctx context.Context, source skill.Source) (*Served, error) {
	toolset, err := skilltoolset.New(ctx, skilltoolset.Config{Source: source})
	if err != nil {
		return nil, err
	}
	return &Served{
		Call: func() (string, error) {
			request := &model.LLMRequest{}
			if err := toolset.ProcessRequest(nil, request); err != nil {
				return "", err
			}
			return request.Config.SystemInstruction.Parts[0].Text, nil
		},
		Body: func(name string) (string, error) {
			if _, err := source.LoadFrontmatter(ctx, name); err != nil {
				return "", err
			}
			return source.LoadInstructions(ctx, name)
		},
	}, nil
}
