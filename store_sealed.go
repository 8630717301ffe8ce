package skillbay

import (
	"context"
	"errors"
	"fmt"
	"unicode/utf8"
)

// Sealer protects what users and models typed while a Store keeps it: the
// arguments of launches, the output of their shell blocks, and the reasons of
// dismissals. Names, times and hashes stay readable: an expiry job or a report
// needs them. Its methods may be called from many goroutines at once; an error
// fails the load or save.
//
// It sees the conversation's id, so that a text cannot be moved to another
// conversation unnoticed: use it as the additional data of an AEAD.
type Sealer interface {
	// Seal returns the text in the form to keep, valid UTF-8. An empty result
	// redacts it: it is not kept, and the body that it belongs to counts as
	// absent once the State was loaded again. For the arguments of a launch by
	// Invoke that waits for its turn it is an error.
	Seal(ctx context.Context, conversation, text string) (string, error)
	// Open returns the text that Seal was given.
	Open(ctx context.Context, conversation, sealed string) (string, error)
}

// Sealed returns a Store that keeps States in store, sealed by sealer.
//
//	cfg.Store = skillbay.Sealed(sqlStore, sealer)
func Sealed(store Store, sealer Sealer) Store { return &sealedStore{store, sealer} }

// errRedacted is the error of an Invoke whose arguments would never reach a model.
var errRedacted = errors.New("the arguments of a launch that waits for the next turn cannot be redacted")

type sealedStore struct {
	Store
	sealer Sealer
}

// Load implements Store.
func (s *sealedStore) Load(ctx context.Context, id string) (Record, error) {
	r, err := s.Store.Load(ctx, id)
	if err != nil || r.Revision == 0 {
		return r, err
	}
	r.State, err = s.each(r.State, func(text string) (string, error) { return s.sealer.Open(ctx, id, text) })
	return r, err
}

// Save implements Store.
func (s *sealedStore) Save(ctx context.Context, id string, r Record) (err error) {
	r.State, err = s.each(r.State, func(text string) (string, error) { return s.sealer.Seal(ctx, id, text) })
	if err != nil {
		return err
	}
	return s.Store.Save(ctx, id, r)
}

// each turns every text of the kind that is sealed, and notes which are lost.
func (s *sealedStore) each(state []byte, turn func(string) (string, error)) ([]byte, error) {
	st := new(State)
	if err := st.UnmarshalJSON(state); err != nil {
		return nil, err
	}
	var failed error
	turned := func(text string) string {
		if text == "" || failed != nil {
			return ""
		}
		text, err := turn(text)
		if err == nil && !utf8.ValidString(text) {
			err = fmt.Errorf("%w: a sealed text is not UTF-8", ErrState)
		}
		failed = err
		return text
	}
	b := &st.book // no one else has it
	for n, list := range [][]launch{b.Launches, b.Pending} {
		for i := range list {
			l := &list[i]
			args := turned(l.Args)
			if n == 1 && args == "" && l.Args != "" && failed == nil {
				failed = errRedacted
			}
			l.Lost = l.Lost || args == "" && l.Args != ""
			l.Args = args
			for n, out := range l.Shell {
				l.Shell[n] = turned(out)
				l.Lost = l.Lost || l.Shell[n] == "" && out != ""
			}
		}
	}
	for i := range b.Dismissals {
		b.Dismissals[i].Reason = turned(b.Dismissals[i].Reason)
	}
	if failed != nil {
		return nil, failed
	}
	return st.MarshalJSON()
}
