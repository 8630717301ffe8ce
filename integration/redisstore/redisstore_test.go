package redisstore_test

import (
	"bytes"
	"context"
	"io"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/skillbay/skillbay"
	"github.com/skillbay/skillbay/integration/redisstore"
	"github.com/skillbay/skillbay/integration/servers"
	"github.com/skillbay/skillbay/skillbaytest"
)

// TestStore: the contract, and what is Redis's own.
func TestStore(t *testing.T) {
	options, err := redis.ParseURL(servers.Start(t, servers.Redis).DSN)
	require.NoError(t, err)
	options.ContextTimeoutEnabled = true
	client := redis.NewClient(options)
	t.Cleanup(func() { client.Close() })

	t.Run("contract", func(t *testing.T) {
		skillbaytest.TestStore(t, func(t *testing.T) skillbay.Store {
			return redisstore.New(client, t.Name()+":", 0)
		})
	})
	t.Run("expiry", func(t *testing.T) { testExpiry(t, client) })
	t.Run("delete", func(t *testing.T) { testDelete(t, client) })
	t.Run("what it did not write", func(t *testing.T) { testForeign(t, client) })
	t.Run("a lost answer", func(t *testing.T) { testLostAnswer(t, options) })
}

func record(revision int64) skillbay.Record {
	return skillbay.Record{Revision: revision, State: []byte(`{"format":1}`)}
}

// testExpiry: every save starts it anew, and a Store without one ends it.
func testExpiry(t *testing.T, client *redis.Client) {
	ctx, key := t.Context(), "expiry:4711"
	for _, tc := range []struct {
		name   string
		expiry time.Duration
		least  time.Duration
		most   time.Duration // what Redis may have left of it
	}{
		{"an hour", time.Hour, 59 * time.Minute, time.Hour},
		{"renewed", 3 * time.Hour, 2*time.Hour + 59*time.Minute, 3 * time.Hour},
		{"never", 0, -1, -1}, // as Redis says it
		{"an hour again", time.Hour, 59 * time.Minute, time.Hour},
		{"less than none", -time.Hour, -1, -1},
	} {
		store := redisstore.New(client, "expiry:", tc.expiry)
		r, err := store.Load(ctx, "4711")
		require.NoError(t, err, tc.name)
		require.NoError(t, store.Save(ctx, "4711", record(r.Revision+1)), tc.name)
		left, err := client.PTTL(ctx, key).Result()
		require.NoError(t, err, tc.name)
		assert.GreaterOrEqual(t, left, tc.least, tc.name)
		assert.LessOrEqual(t, left, tc.most, tc.name)
	}

	store := redisstore.New(client, "expiry:", time.Hour)
	require.ErrorIs(t, store.Save(ctx, "4711", record(2)), skillbay.ErrConflict)
	left, err := client.PTTL(ctx, key).Result()
	require.NoError(t, err)
	assert.Negative(t, left, "a save that is refused renews nothing")

	// A part of a millisecond is one, not "never".
	store = redisstore.New(client, "brief:", time.Nanosecond)
	require.NoError(t, store.Save(ctx, "4711", record(1)))
	left, err = client.PTTL(ctx, "brief:4711").Result()
	require.NoError(t, err)
	assert.NotEqualValues(t, -1, left, "never")
}

func testDelete(t *testing.T, client *redis.Client) {
	ctx := t.Context()
	one, two := redisstore.New(client, "one:", 0), redisstore.New(client, "two:", 0)
	require.NoError(t, one.Save(ctx, "4711", record(1)))
	require.NoError(t, two.Save(ctx, "4711", record(1)), "another prefix is another Store")
	require.NoError(t, one.Delete(ctx, "4711"))
	require.NoError(t, one.Delete(ctx, "4711"), "once more is no error")
	r, err := one.Load(ctx, "4711")
	require.NoError(t, err)
	assert.Zero(t, r)
	r, err = two.Load(ctx, "4711")
	require.NoError(t, err)
	assert.EqualValues(t, 1, r.Revision)
	ended, cancel := context.WithCancel(ctx)
	cancel()
	require.ErrorIs(t, two.Delete(ended, "4711"), context.Canceled)
}

// testForeign: a key that holds something else is an error. As a new
// conversation it would lift every limit.
func testForeign(t *testing.T, client *redis.Client) {
	ctx := t.Context()
	store := redisstore.New(client, "foreign:", 0)
	for id, fields := range map[string][]any{
		"no revision":       {"state", "{}"},
		"no state":          {"revision", "1"},
		"no number":         {"revision", "one", "state", "{}"},
		"revision of none":  {"revision", "0", "state", "{}"},
		"revision too long": {"revision", "9223372036854775808", "state", "{}"},
	} {
		require.NoError(t, client.HSet(ctx, "foreign:"+id, fields...).Err())
		_, err := store.Load(ctx, id)
		require.ErrorContains(t, err, "foreign:"+id, id)
	}
	require.NoError(t, client.Set(ctx, "foreign:text", "x", 0).Err())
	_, err := store.Load(ctx, "text")
	require.Error(t, err)
	err = store.Save(ctx, "text", record(1))
	require.Error(t, err)
	assert.NotErrorIs(t, err, skillbay.ErrConflict)
}

// testLostAnswer: the client sends a script again whose answer it did not get.
// That is one save, and no conflict with another machine.
func testLostAnswer(t *testing.T, options *redis.Options) {
	var lose atomic.Int32
	leaky := *options
	leaky.Dialer = func(ctx context.Context, network, address string) (net.Conn, error) {
		c, err := new(net.Dialer).DialContext(ctx, network, address)
		return &leakyConn{Conn: c, lose: &lose}, err
	}
	client := redis.NewClient(&leaky)
	defer client.Close()
	ctx := t.Context()
	store := redisstore.New(client, "lost:", 0)
	require.NoError(t, store.Save(ctx, "4711", record(1)))
	for revision := int64(2); revision < 5; revision++ {
		lose.Store(1)
		require.NoError(t, store.Save(ctx, "4711", record(revision)))
		require.Zero(t, lose.Load(), "no answer was lost")
		r, err := store.Load(ctx, "4711")
		require.NoError(t, err)
		require.Equal(t, revision, r.Revision)
	}
	// The same bytes from elsewhere are another save.
	require.ErrorIs(t, store.Save(ctx, "4711", record(4)), skillbay.ErrConflict)
}

// leakyConn breaks after a script was carried out and before its answer arrives,
// as often as lose says.
type leakyConn struct {
	net.Conn
	lose   *atomic.Int32
	script bool
}

func (c *leakyConn) Write(p []byte) (int, error) {
	c.script = bytes.Contains(bytes.ToLower(p), []byte("evalsha"))
	return c.Conn.Write(p)
}

func (c *leakyConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if c.script && err == nil && c.lose.CompareAndSwap(1, 0) {
		_ = c.Conn.Close() // the client asks once more before it believes it
		return 0, io.EOF
	}
	return n, err
}
