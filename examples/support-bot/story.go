package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/skillbay/skillbay"
)

// storyConversation is the id under which the story is stored.
const storyConversation = "story"

// firstTurnAfterRestart is played by a second process.
const firstTurnAfterRestart = 11

// keptTurns is how many turns the summary leaves as they are.
const keptTurns = 2

// shopper is the customer of the story: a consumer, who sees no trade terms.
var shopper = customer{id: "consumer-1"}

// scene is one turn of the story: what the shop does before it, and what must
// be true after it. What the customer says is in words.lines.
type scene struct {
	before func(context.Context, *bot) error
	expect []expectation
}

// scenes returns the story, turn by turn.
func scenes(w *words) []scene {
	listing := sentFirst("the listing", "- refund-policy: ")
	return []scene{
		{expect: []expectation{ // 1: no skill needed, the listing is announced
			event(skillbay.EventAnnounced, "refund-policy", ""),
			listing,
			notSentLast("the skill hidden from consumers", "trade-terms"),
			notSentLast("the skill that only people may invoke", "goodwill-credit"),
			ranOnly("CatalogSearch"), active(),
		}},
		{expect: []expectation{ // 2: the window opens: its tools run, another does not
			event(skillbay.EventInvoked, "refund-policy", ""),
			event(skillbay.EventBlocked, "AddressChange", "not listed"),
			noEvent(skillbay.EventAnnounced),
			ranOnly("OrderLookup", "RefundQuote", "RefundSubmit"),
			says("49.90"), active("refund-policy"),
		}},
		{expect: []expectation{ // 3: a new turn closes the window
			event(skillbay.EventReinjected, "refund-policy", ""),
			sentFirst("the refund skill's body again", bodyOf("refund-policy")),
			noEvent(skillbay.EventBlocked),
			ranOnly("AddressChange"), says(w.newAddress),
		}},
		{expect: []expectation{ // 4: the body that was loaded earlier answers
			noEvent(skillbay.EventInvoked),
			ranOnly(), says(w.arrival),
		}},
		{expect: []expectation{ // 5: no refund without the refund skill, however one asks
			event(skillbay.EventBlocked, "RefundSubmit", "guarded"),
			event(skillbay.EventInvoked, "refund-policy", ""),
			ranOnly("OrderLookup", "RefundQuote", "handoff_to_human"),
			says("A0990"),
		}},
		{expect: []expectation{ // 6: the topic drifts
			sentFirst("the refund skill's body", bodyOf("refund-policy")),
			event(skillbay.EventInvoked, "invoice", ""),
			event(skillbay.EventDismissed, "refund-policy", ""),
			notSentLast("the dismissed body", bodyOf("refund-policy")),
			ranOnly("InvoiceSend"), active("invoice"),
		}},
		{expect: []expectation{ // 7: a skill that only people may invoke
			event(skillbay.EventDenied, "goodwill-credit", ""),
			noEvent(skillbay.EventInvoked), ranOnly(),
		}},
		{expect: []expectation{ // 8: policy denies
			event(skillbay.EventDenied, "price-match", ""),
			noEvent(skillbay.EventInvoked), ranOnly(), says(w.saleReason),
		}},
		{before: summary, expect: []expectation{ // 9: a summary took the launch away, not the body
			sentFirst("the summary", w.soFar),
			notSentLast("what was summarised", w.lines[0]),
			event(skillbay.EventReinjected, "invoice", ""),
			sentFirst("the invoice skill's body again", bodyOf("invoice")),
			notSentLast("the dismissed body", bodyOf("refund-policy")),
			ranOnly(), says(w.vat),
		}},
		{before: supervisor, expect: []expectation{ // 10: a supervisor's click
			sentFirst("the goodwill skill's body", bodyOf("goodwill-credit")),
			noEvent(skillbay.EventBlocked),
			ranOnly("OrderLookup", "CreditGrant"),
			says("15.00"), active("goodwill-credit", "invoice"),
		}},
		{before: warehouse, expect: []expectation{ // 11: another process: nothing is announced twice
			noEvent(skillbay.EventAnnounced),
			listing,
			event(skillbay.EventInvoked, "shipping", ""),
			event(skillbay.EventDismissed, "invoice", ""),
			event(skillbay.EventBlocked, "AddressChange", "banned"),
			notSentLast("the body dismissed before the restart", bodyOf("refund-policy")),
			ranOnly("ShippingTrack"), active("goodwill-credit", "shipping"),
		}},
		{before: closing, expect: []expectation{ // 12: the shop releases what it invoked
			noEvent(skillbay.EventAnnounced),
			notSentLast("the released body", bodyOf("goodwill-credit")),
			ranOnly(), says(w.farewell), active("shipping"),
			ledger("announced", (*skillbay.State).Announced, "invoice", "price-match", "refund-policy", "shipping"),
			ledger("dismissed", dismissedNames, "goodwill-credit", "invoice", "refund-policy"),
		}},
	}
}

// dismissedNames reads the dismissed ledger as names.
func dismissedNames(st *skillbay.State) []string {
	var names []string
	for _, d := range st.Dismissed() {
		names = append(names, d.Skill)
	}
	return names
}

// summary replaces the older rows of the conversation by one.
func summary(ctx context.Context, b *bot) error {
	text, err := b.summarise(ctx, keptTurns)
	if err == nil {
		b.transcript.host(b.words.notes.summarised, text)
	}
	return err
}

// supervisor invokes the skill that the model may not launch.
func supervisor(ctx context.Context, b *bot) error {
	b.transcript.host("%s", b.words.notes.supervisor)
	return b.click(ctx, "goodwill-credit", "A0990 15.00")
}

// warehouse sends the second order on its way.
func warehouse(ctx context.Context, b *bot) error {
	b.transcript.host("%s", b.words.notes.shipped)
	return b.store.setStatus(ctx, "A1042", b.words.inTransit)
}

// closing releases the skill that the supervisor invoked.
func closing(ctx context.Context, b *bot) error {
	b.transcript.host("%s", b.words.notes.closed)
	return b.release(ctx, "goodwill-credit", b.words.closedReason)
}

// play plays the turns from first to last and stops at the first expectation
// that is not met; nil expectations are none. It returns all events.
func (b *bot) play(ctx context.Context, first, last int, all []scene) ([]skillbay.Event, error) {
	var events []skillbay.Event
	for turn := first; turn <= last; turn++ {
		s := all[turn-1]
		if s.before != nil {
			if err := s.before(ctx, b); err != nil {
				return events, fmt.Errorf("before turn %d: %w", turn, err)
			}
		}
		r, err := b.say(ctx, b.words.lines[turn-1])
		if err != nil {
			return events, fmt.Errorf("turn %d: %w", turn, err)
		}
		events = append(events, r.events...)
		if err := verify(moment{r, b}, s.expect); err != nil {
			return events, err
		}
	}
	return events, nil
}

// tellStory plays the whole story: ten turns here, the rest in a second process
// started with the given command, then once more without dismissals to measure
// what they save. An error says what did not go as told.
func tellStory(ctx context.Context, s setup, path string, restart []string) error {
	products, orders := s.words.products, s.words.orders
	if err := s.store.reset(ctx, storyConversation, products, orders); err != nil {
		return err
	}
	s.conversation = storyConversation
	b, err := newBot(ctx, s)
	if err != nil {
		return err
	}
	b.transcript.line("%s\n", s.words.notes.intro)
	b.printSkills()
	events, err := b.play(ctx, 1, firstTurnAfterRestart-1, scenes(s.words))
	if err != nil {
		return err
	}
	if err := allTypes(events); err != nil {
		return err
	}
	b.transcript.line("\n%s", s.words.notes.stopped)
	if err := s.store.close(); err != nil {
		return err
	}
	second := exec.CommandContext(ctx, restart[0], restart[1:]...)
	var failure strings.Builder
	second.Stdout, second.Stderr = s.out, &failure
	if err := second.Run(); err != nil {
		return fmt.Errorf("the second process: %w\n%s", err, strings.TrimSpace(failure.String()))
	}
	return finish(ctx, s, path)
}

// resumeStory plays the turns after the restart from what the database holds.
func resumeStory(ctx context.Context, s setup) error {
	s.conversation = storyConversation
	b, err := newBot(ctx, s)
	if err != nil {
		return err
	}
	before := b.state.Announced()
	b.transcript.line("%s", fmt.Sprintf(s.words.notes.resumed, b.state.Turn(), strings.Join(b.state.Active(), ", ")))
	if b.state.Turn() != firstTurnAfterRestart-1 {
		return fmt.Errorf("expected to resume after turn %d, the State says %d", firstTurnAfterRestart-1, b.state.Turn())
	}
	all := scenes(s.words)
	if _, err := b.play(ctx, b.state.Turn()+1, len(all), all); err != nil {
		return err
	}
	if after := b.state.Announced(); !slices.Equal(before, after) {
		return fmt.Errorf("expected nothing to be announced twice: before %q, after %q", before, after)
	}
	b.transcript.line("\n%s", s.words.notes.onceOnly)
	b.printLedgers()
	return nil
}

// finish checks what the tools did in all, and prints what was sent.
func finish(ctx context.Context, s setup, path string) error {
	db, err := openStore(ctx, path)
	if err != nil {
		return err
	}
	done, err := db.effects(ctx)
	if err != nil {
		return errors.Join(err, db.close())
	}
	with, err := db.usages(ctx, storyConversation)
	if err := errors.Join(err, db.close()); err != nil {
		return err
	}
	want := []string{
		"Refund A1023 49.90", "Address A1042 " + s.words.newAddress, "Handoff  " + s.words.lines[4],
		"Invoice A1042 ", "Credit A0990 15.00",
	}
	if !slices.Equal(done, want) {
		return fmt.Errorf("expected the tools to have done\n  %q\nthey did\n  %q", want, done)
	}
	if _, ok := s.model.(scripted); ok { // a real model's answers cannot be compared with a script's
		without, err := withoutDismissal(ctx, s)
		if err != nil {
			return err
		}
		if err := printTable(s, with, without); err != nil {
			return err
		}
	}
	_, err = fmt.Fprintf(s.out, "\n%s\n", s.words.notes.verdict)
	return err
}

// withoutDismissal plays the same story in one process, silently, with a model
// that never releases a skill, and returns what it sent. Nothing is expected of
// the turns: they are a yardstick.
func withoutDismissal(ctx context.Context, s setup) (sent []usage, err error) {
	dir, err := os.MkdirTemp("", "support-bot-")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	if s.store, err = openStore(ctx, filepath.Join(dir, "yardstick.db")); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.store.close()) }()
	if err := s.store.reset(ctx, storyConversation, s.words.products, s.words.orders); err != nil {
		return nil, err
	}
	s.out, s.clock, s.model = io.Discard, newStoryClock(), scripted{words: s.words, neverRelease: true}
	b, err := newBot(ctx, s)
	if err != nil {
		return nil, err
	}
	all := scenes(s.words)
	for i := range all {
		all[i].expect = nil
	}
	if _, err := b.play(ctx, 1, len(all), all); err != nil {
		return nil, err
	}
	return s.store.usages(ctx, storyConversation)
}

// allTypes checks that each of the six event types was seen.
func allTypes(events []skillbay.Event) error {
	for _, kind := range []string{
		skillbay.EventAnnounced, skillbay.EventInvoked, skillbay.EventDenied,
		skillbay.EventReinjected, skillbay.EventBlocked, skillbay.EventDismissed,
	} {
		if !slices.ContainsFunc(events, func(e skillbay.Event) bool { return e.Type == kind }) {
			return fmt.Errorf("expected an event %s, there was none", kind)
		}
	}
	return nil
}

// printTable prints what every turn sent, with and without dismissals, and
// fails when they saved nothing.
func printTable(s setup, with, without []usage) error {
	n := s.words.notes
	if len(with) != len(without) {
		return fmt.Errorf("expected %d turns, measured %d", len(without), len(with))
	}
	var b strings.Builder
	fmt.Fprintf(&b, "\n%s\n%s\n", n.tableTitle, n.tableHead)
	var total, other int
	for i, w := range with {
		fmt.Fprintf(&b, "  %4d  %5d  %9d  %9d  %9d\n", w.turn, w.calls, w.tokens, without[i].tokens, without[i].tokens-w.tokens)
		total, other = total+w.tokens, other+without[i].tokens
	}
	if total >= other {
		return fmt.Errorf("expected dismissals to save tokens: %d sent with them, %d without", total, other)
	}
	fmt.Fprintf(&b, "  %s %9d  %9d  %9d  (%d %%)\n", n.total, total, other, other-total, (other-total)*100/other)
	_, err := io.WriteString(s.out, b.String())
	return err
}
