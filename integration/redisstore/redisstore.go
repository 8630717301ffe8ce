// Package redisstore keeps conversations in Redis. It is an example to copy into
// a service: what a skillbay.Store has to get right, in one file.
//
// Redis must not lose what it is given, or a conversation forgets its limits: a
// server with an append-only file, and maxmemory-policy noeviction. After a
// failover the last saves may be missing, as Redis replicates without waiting.
package redisstore

import (
	"context"
	"crypto/rand"
	"fmt"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/skillbay/skillbay"
)

// Store is a skillbay.Store with a hash for each conversation, whose key is the
// prefix and the id. The fields are revision (a decimal number), state (JSON) and
// save (what the last save is known by). All methods are safe for concurrent use.
type Store struct {
	client redis.UniversalClient
	prefix string
	expiry time.Duration
}

var _ skillbay.Store = (*Store)(nil)

// New returns a Store. A conversation is forgotten when expiry has passed since
// it was last saved; 0 or less: never. Of a part of a millisecond it is a whole
// one. The caller keeps the client and closes it.
//
// The client's ContextTimeoutEnabled should be true: without it a server that
// hangs holds a request for the client's own timeouts, whatever
// Config.StoreTimeout says. A cluster's client must read from masters
// (no ReadOnly): an answer of a replica may be an old State.
func New(client redis.UniversalClient, prefix string, expiry time.Duration) *Store {
	if part := expiry % time.Millisecond; part > 0 {
		expiry += time.Millisecond - part
	}
	return &Store{client: client, prefix: prefix, expiry: expiry}
}

// save compares and sets in one step: nothing else runs in Redis meanwhile. Its
// one key makes it fit for a cluster.
//
// The client sends a command again when the connection broke before the answer
// came. Then the first one may have been carried out, and the second one must not
// take its own save for another machine's: every save has a name.
//
//	KEYS[1] the conversation    ARGV[1] its revision so far, ARGV[2] the new one
//	ARGV[3] the state           ARGV[4] the save's name
//	                            ARGV[5] milliseconds until it expires; 0: never
var save = redis.NewScript(`
local kept = redis.call('HMGET', KEYS[1], 'revision', 'save')
if kept[1] == ARGV[2] and kept[2] == ARGV[4] then
	return 1
end
if (kept[1] or '0') ~= ARGV[1] then
	return 0
end
redis.call('HSET', KEYS[1], 'revision', ARGV[2], 'state', ARGV[3], 'save', ARGV[4])
if ARGV[5] == '0' then
	redis.call('PERSIST', KEYS[1])
else
	redis.call('PEXPIRE', KEYS[1], ARGV[5])
end
return 1
`)

// Load implements skillbay.Store.
func (s *Store) Load(ctx context.Context, id string) (skillbay.Record, error) {
	if err := ctx.Err(); err != nil {
		return skillbay.Record{}, err
	}
	kept, err := s.client.HMGet(ctx, s.prefix+id, "revision", "state").Result()
	if err != nil {
		return skillbay.Record{}, fmt.Errorf("redisstore: load: %w", err)
	}
	if kept[0] == nil && kept[1] == nil {
		return skillbay.Record{}, nil
	}
	// A hash that this package did not write is no conversation, and no new one.
	revision, ok := kept[0].(string)
	state, whole := kept[1].(string)
	n, err := strconv.ParseInt(revision, 10, 64)
	if !ok || !whole || err != nil || n < 1 {
		return skillbay.Record{}, fmt.Errorf("redisstore: load: %q holds no conversation", s.prefix+id)
	}
	return skillbay.Record{Revision: n, State: []byte(state)}, nil
}

// Save implements skillbay.Store.
func (s *Store) Save(ctx context.Context, id string, r skillbay.Record) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	saved, err := save.Run(ctx, s.client, []string{s.prefix + id},
		r.Revision-1, r.Revision, r.State, rand.Text(), max(0, s.expiry.Milliseconds())).Bool()
	switch {
	case err != nil:
		return fmt.Errorf("redisstore: save: %w", err)
	case !saved:
		return skillbay.ErrConflict
	}
	return nil
}

// Delete forgets a conversation; one that is not kept is no error.
func (s *Store) Delete(ctx context.Context, id string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := s.client.Del(ctx, s.prefix+id).Err(); err != nil {
		return fmt.Errorf("redisstore: delete: %w", err)
	}
	return nil
}
