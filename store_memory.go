package skillbay

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"
)

// MemoryStore is a Store in this process, for tests and demos. The zero value is
// empty and ready; do not copy it after first use.
type MemoryStore struct {
	mu    sync.Mutex
	kept  map[string]Record
	saved map[string]time.Time
}

var _ Store = (*MemoryStore)(nil)

// Load implements Store.
func (m *MemoryStore) Load(ctx context.Context, id string) (Record, error) {
	if err := ctx.Err(); err != nil {
		return Record{}, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	r := m.kept[id]
	r.State = slices.Clone(r.State)
	return r, nil
}

// Save implements Store.
func (m *MemoryStore) Save(ctx context.Context, id string, r Record) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.kept[id].Revision != r.Revision-1 {
		return ErrConflict
	}
	if m.kept == nil {
		m.kept, m.saved = map[string]Record{}, map[string]time.Time{}
	}
	r.State = slices.Clone(r.State)
	m.kept[id], m.saved[id] = r, time.Now()
	return nil
}

// Delete forgets a conversation; one that is not kept is no error.
func (m *MemoryStore) Delete(ctx context.Context, id string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.kept, id)
	delete(m.saved, id)
	return nil
}

// Purge forgets the conversations that were last saved before that time, and
// returns how many.
func (m *MemoryStore) Purge(ctx context.Context, before time.Time) (int64, error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	had := len(m.kept)
	maps.DeleteFunc(m.saved, func(id string, saved time.Time) bool {
		if old := saved.Before(before); old {
			delete(m.kept, id)
			return true
		}
		return false
	})
	return int64(had - len(m.kept)), nil
}
