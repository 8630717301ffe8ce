package servers

import (
	"context"
	"fmt"
	"net"

	"github.com/redis/go-redis/v9"
)

// Redis starts a Redis server, or returns the one that SKILLBAY_REDIS names. ctx
// bounds the start, not the server's life. The error is ErrAbsent if
// redis-server is neither in PATH nor where Debian has it.
func Redis(ctx context.Context) (*Server, error) { return redisServer.start(ctx) }

var redisServer = kind{
	name:     "Redis",
	variable: "SKILLBAY_REDIS",
	programs: []string{"redis-server"},
	folders:  []string{"/usr/bin"},
	signal:   "KILL", // it keeps nothing
	prepare:  func(context.Context, *site) error { return nil },
	arguments: func(s *site) ([]string, error) {
		config, err := s.file("redis.conf", fmt.Sprintf(`bind 127.0.0.1
port %d
requirepass %s
dir %s
save ""
appendonly no
maxmemory 64mb
maxmemory-policy noeviction
databases 16
`, s.port, s.password, s.dir))
		return []string{config}, err
	},
	dsn: func(s *site) string { return fmt.Sprintf("redis://:%s@127.0.0.1:%d/0", s.password, s.port) },
	ping: func(ctx context.Context, dsn string) error {
		options, err := redis.ParseURL(dsn)
		if err != nil {
			return err
		}
		// The client writes about a server that refuses, which is none to remark on here.
		connection, err := new(net.Dialer).DialContext(ctx, options.Network, options.Addr)
		if err != nil {
			return err
		}
		_ = connection.Close()
		options.MaxRetries = -1 // none: the caller asks again
		client := redis.NewClient(options)
		defer client.Close()
		return client.Ping(ctx).Err()
	},
}
