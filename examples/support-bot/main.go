// Command support-bot is a consumer shop's support entrance: langchaingo's own
// executor and functions agent, SQLite, and skillbay between them.
//
// Without flags it plays a story of twelve turns with a scripted model, offline,
// shows every audit event where it happens, and checks itself:
//
//	go run ./examples/support-bot
//
// Where to look: bot.go wires skillbay to langchaingo, conversation.go keeps
// the conversation and its State in one transaction, policy.go decides who sees
// and launches what, story.go is the story with its expectations, model.go the
// rules that stand in for a model.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
)

const help = `support-bot: a shop's support entrance with skillbay on langchaingo's executor.

usage: go run ./examples/support-bot [flags]

Without flags a scripted model plays a story of twelve turns, offline and always the same: listing, launch, a tool in the
window, a blocked and a guarded tool, policy denials, topic drift and dismissal, summary and re-injection, a supervisor's
click, and a restart: a second process resumes from the database. Exit status 0 means that the story went as told.

  -chat            talk to the bot yourself; /skills /state /invoke SKILL ARGS /dismiss SKILL REASON /quit
  -provider NAME   openai, anthropic, googleai or ollama: langchaingo's real client in the place of the scripted model
  -model NAME      the provider's model; required with -provider
  -db FILE         the SQLite database; default: a temporary file, removed at the end. -chat resumes what FILE holds,
                   the story starts over
  -lang LANG       en (default) or zh
  -h               this text

Keys come from the environment: OPENAI_API_KEY (and OPENAI_BASE_URL), ANTHROPIC_API_KEY, GOOGLE_API_KEY; for ollama
OLLAMA_HOST, if it is not this machine. A real model may tell the story differently; then the exit status is 1.

In the transcript: → a tool call as the model made it, ← its answer, ⇒ an audit event.
`

// options are the flags.
type options struct {
	chat, resume              bool
	provider, model, db, lang string
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	status := run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
	stop()
	os.Exit(status)
}

// run is the command: its exit status is 0 when all went as told, 1 when it did
// not, 2 when the flags make no sense.
func run(ctx context.Context, args []string, in io.Reader, out, errs io.Writer) int {
	o, err := parseFlags(args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		_, _ = io.WriteString(out, help)
		return 0
	case err != nil:
		_, _ = fmt.Fprintf(errs, "support-bot: %v (-h explains)\n", err)
		return 2
	}
	if err := o.do(ctx, in, out); err != nil {
		_, _ = fmt.Fprintf(errs, "support-bot: %v\n", err)
		return 1
	}
	return 0
}

// parseFlags reads the flags. -resume is internal: the story's second process.
func parseFlags(args []string) (options, error) {
	var o options
	flags := flag.NewFlagSet("support-bot", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	flags.BoolVar(&o.chat, "chat", false, "")
	flags.BoolVar(&o.resume, "resume", false, "")
	flags.StringVar(&o.provider, "provider", "", "")
	flags.StringVar(&o.model, "model", "", "")
	flags.StringVar(&o.db, "db", "", "")
	flags.StringVar(&o.lang, "lang", "en", "")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	switch {
	case flags.NArg() > 0:
		return o, fmt.Errorf("unexpected argument %q", flags.Arg(0))
	case languages[o.lang] == nil:
		return o, fmt.Errorf("unknown language %q: use en or zh", o.lang)
	case o.model != "" && o.provider == "":
		return o, errors.New("-model needs -provider")
	case o.resume && (o.chat || o.db == ""):
		return o, errors.New("-resume is the story's own flag")
	}
	return o, nil
}

// do connects the model, opens the database and plays what the flags ask for.
func (o options) do(ctx context.Context, in io.Reader, out io.Writer) (err error) {
	s := setup{words: languages[o.lang], clock: newStoryClock(), out: out}
	s.model = scripted{words: s.words}
	if o.provider != "" {
		if s.model, s.oneShot, err = connect(ctx, o.provider, o.model); err != nil {
			return err
		}
	}
	if o.db == "" {
		dir, err := os.MkdirTemp("", "support-bot-")
		if err != nil {
			return err
		}
		defer func() { _ = os.RemoveAll(dir) }()
		o.db = filepath.Join(dir, "support.db")
	}
	if s.store, err = openStore(ctx, o.db); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.store.close()) }()
	ctx = withCustomer(ctx, shopper)
	switch {
	case o.chat:
		return chat(ctx, s, in)
	case o.resume:
		return resumeStory(ctx, s)
	}
	restart, err := o.restart()
	if err != nil {
		return err
	}
	return tellStory(ctx, s, o.db, restart)
}

// restart returns the command line of the story's second process.
func (o options) restart() ([]string, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	command := []string{self, "-resume", "-db", o.db, "-lang", o.lang}
	if o.provider != "" {
		command = append(command, "-provider", o.provider, "-model", o.model)
	}
	return command, nil
}
