package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
)

// chatConversation is the id under which -chat stores its conversation.
const chatConversation = "chat"

// chat reads the customer's lines until the input ends. A turn that fails is
// reported and the conversation goes on; an interrupt ends it in good order.
func chat(ctx context.Context, s setup, in io.Reader) error {
	stocked, err := s.store.products(ctx)
	if err != nil {
		return err
	}
	if len(stocked) == 0 {
		if err := s.store.reset(ctx, chatConversation, s.words.products, s.words.orders); err != nil {
			return err
		}
	}
	s.conversation = chatConversation
	b, err := newBot(ctx, s)
	if err != nil {
		return err
	}
	b.transcript.line("%s", fmt.Sprintf(s.words.notes.chat, b.state.Turn()))
	ctx, stop := context.WithCancel(ctx) // stops the reader with the chat
	defer stop()
	lines := make(chan string)
	var broken error // set before lines is closed
	go func() {
		broken = readLines(ctx, in, lines)
		close(lines)
	}()
	for {
		b.transcript.prompt()
		select {
		case <-ctx.Done(): // an interrupt ends a chat like /quit
			b.transcript.line("\n%s", s.words.notes.bye)
			return nil
		case text, more := <-lines:
			if !more {
				b.transcript.line("%s", s.words.notes.bye)
				return broken
			}
			if text == "/quit" {
				b.transcript.line("%s", s.words.notes.bye)
				return nil
			}
			if err := b.answer(ctx, text); err != nil {
				b.transcript.line("%s%v", s.words.notes.failed, err)
			}
		}
	}
}

// readLines hands over the lines of in that are not blank. It runs beside the
// chat, so that an interrupt is heeded while a read waits; a read that waits
// when the chat has ended is left to the end of the process.
func readLines(ctx context.Context, in io.Reader, lines chan<- string) error {
	scanner := bufio.NewScanner(in)
	scanner.Buffer(nil, 1<<20)
	for scanner.Scan() {
		text := strings.TrimSpace(scanner.Text())
		if text == "" {
			continue
		}
		select {
		case lines <- text:
		case <-ctx.Done():
			return nil
		}
	}
	return scanner.Err()
}

// answer obeys a command of the back office or plays the customer's turn. After
// every few turns the older rows are replaced by a summary.
func (b *bot) answer(ctx context.Context, text string) error {
	command, rest, _ := strings.Cut(text, " ")
	rest = strings.TrimSpace(rest)
	skill, args, _ := strings.Cut(rest, " ")
	switch command {
	case "/skills":
		b.printSkills()
		return nil
	case "/state":
		b.printLedgers()
		return nil
	case "/invoke":
		return b.click(ctx, skill, strings.TrimSpace(args))
	case "/dismiss":
		return b.release(ctx, skill, args)
	}
	if strings.HasPrefix(command, "/") {
		return errors.New("commands: /skills /state /invoke SKILL ARGS /dismiss SKILL REASON /quit")
	}
	if _, err := b.say(ctx, text); err != nil {
		return err
	}
	if turn := b.state.Turn(); turn%summaryEvery != 0 {
		return nil
	}
	return summary(ctx, b)
}

// summaryEvery is the number of turns after which a chat is summarised.
const summaryEvery = 6
