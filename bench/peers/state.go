package peers

import (
	"runtime"

	"github.com/skillbay/skillbay"
)

// Book is the State of a conversation as it is saved after the turn in which its
// skills were launched: the larger of the sizes that it has between two turns.
type Book struct {
	// JSON is what is saved.
	JSON []byte
}

// NewBook is the State of a conversation with that many active skills of mw.
func NewBook(mw *skillbay.Middleware, active int) (*Book, error) {
	talk, err := converse(mw, 0, active)
	if err != nil {
		return nil, err
	}
	data, err := talk.state.MarshalJSON()
	return &Book{JSON: data}, err
}

// Decode is the operation of loading the State.
func (b *Book) Decode() Op {
	return func() error { return new(skillbay.State).UnmarshalJSON(b.JSON) }
}

// Encode is the operation of saving it.
func (b *Book) Encode() (Op, error) {
	st := new(skillbay.State)
	if err := st.UnmarshalJSON(b.JSON); err != nil {
		return nil, err
	}
	return func() error {
		_, err := st.MarshalJSON()
		return err
	}, nil
}

// Idle is the memory of one decoded conversation that nobody uses, in bytes: the
// heap's growth over n of them, divided. Their JSON is not in it. Other
// goroutines that allocate meanwhile spoil it.
func (b *Book) Idle(n int) (float64, error) {
	states := make([]*skillbay.State, n)
	before := heap()
	for i := range states {
		states[i] = new(skillbay.State)
		if err := states[i].UnmarshalJSON(b.JSON); err != nil {
			return 0, err
		}
	}
	after := heap()
	runtime.KeepAlive(states)
	return (float64(after) - float64(before)) / float64(n), nil
}

// heap is what is in use after a collection.
func heap() uint64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC() // the second frees what the first one's finalizers let go
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
