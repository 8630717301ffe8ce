// Economy prints what ways of giving skills to a model cost in tokens, as
// Markdown tables, and draws the plot of docs/economy.svg.
//
//	go run ./cmd/economy                       # the tables, 4 characters a token
//	go run ./cmd/economy -tokens o200k         # the same in OpenAI's o200k tokens
//	go run ./cmd/economy -svg ../docs/economy.svg
package main

import (
	"bufio"
	"flag"
	"fmt"
	"os"

	"github.com/skillbay/skillbay/bench/economy"
	"github.com/skillbay/skillbay/bench/economy/o200k"
)

func main() {
	svg := flag.String("svg", "", "write the plot to this `file` instead of printing tables")
	tokens := flag.String("tokens", "plain", "`counter`: plain (4 ASCII characters are a token) or o200k")
	flag.Parse()
	if err := run(*svg, *tokens); err != nil {
		fmt.Fprintln(os.Stderr, "economy:", err)
		os.Exit(1)
	}
}

func run(svg, tokens string) error {
	if svg != "" {
		return os.WriteFile(svg, economy.SVG(), 0o644)
	}
	var counter economy.Counter
	switch tokens {
	case "plain":
	case "o200k":
		c, err := o200k.New()
		if err != nil {
			return err
		}
		counter = c
	default:
		return fmt.Errorf("unknown counter %q", tokens)
	}
	out := bufio.NewWriter(os.Stdout)
	if err := economy.Report(out, counter); err != nil {
		return err
	}
	return out.Flush()
}
