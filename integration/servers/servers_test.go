package servers

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	_ "modernc.org/sqlite" // the database that needs no server
)

var all = []struct {
	kind  kind
	start func(context.Context) (*Server, error)
}{
	{postgreSQL, PostgreSQL},
	{mariaDB, MariaDB},
	{redisServer, Redis},
}

// TestServers: a server starts, takes queries from more than one connection,
// keeps others out, serves as one that runs already, and after Close there is
// nothing of it. One start serves all that: starts are what takes time.
func TestServers(t *testing.T) {
	for _, test := range all {
		t.Run(test.kind.name, func(t *testing.T) {
			t.Setenv(test.kind.variable, "") // a server of this test's own
			begin := time.Now()
			server := Start(t, test.start)
			t.Logf("started in %s", time.Since(begin).Round(time.Millisecond))
			dir := server.keeper.dir
			require.DirExists(t, dir)
			if runtime.GOOS == "linux" {
				require.NotEmpty(t, processesIn(t, dir), "this check finds nothing: it cannot find what is left either")
			}

			exchange(t, server)
			keepsOut(t, server, test.kind)

			t.Setenv(test.kind.variable, server.DSN)
			named, err := test.start(t.Context())
			require.NoError(t, err)
			assert.Equal(t, &Server{Driver: server.Driver, DSN: server.DSN}, named)
			require.NoError(t, named.Close())
			assert.NoError(t, test.kind.ping(t.Context(), server.DSN), "Close stopped a server that it did not start")

			begin = time.Now()
			require.NoError(t, server.Close())
			t.Logf("stopped in %s", time.Since(begin).Round(time.Millisecond))
			assert.NoDirExists(t, dir)
			assert.Empty(t, processesIn(t, dir), "processes are left")
			assert.Error(t, test.kind.ping(t.Context(), server.DSN), "it answers after Close")
			assert.NoError(t, server.Close(), "a second Close")

			_, err = test.start(t.Context())
			require.ErrorContains(t, err, test.kind.variable)
			assert.NotErrorIs(t, err, ErrAbsent, "a named server that does not answer is a fault, no reason to skip")
		})
	}
}

// TestExchange: what TestServers asks of servers, asked of a database that every
// machine has. If this fails too, the servers are not to blame.
func TestExchange(t *testing.T) {
	exchange(t, &Server{Driver: "sqlite", DSN: filepath.Join(t.TempDir(), "file.db")})
}

// exchange writes by one connection and reads by another.
func exchange(t *testing.T, server *Server) {
	t.Helper()
	ctx := t.Context()
	const text = "Grüße, 世界 🙂"
	if server.Driver == "" {
		options, err := redis.ParseURL(server.DSN)
		require.NoError(t, err)
		writer, reader := redis.NewClient(options), redis.NewClient(options)
		defer writer.Close()
		defer reader.Close()
		require.NoError(t, writer.Set(ctx, "key", text, 0).Err())
		got, err := reader.Get(ctx, "key").Result()
		require.NoError(t, err)
		assert.Equal(t, text, got)
		return
	}
	writer, err := sql.Open(server.Driver, server.DSN)
	require.NoError(t, err)
	defer writer.Close()
	reader, err := sql.Open(server.Driver, server.DSN)
	require.NoError(t, err)
	defer reader.Close()
	_, err = writer.ExecContext(ctx, "CREATE TABLE words (word VARCHAR(100) NOT NULL)")
	require.NoError(t, err)
	_, err = writer.ExecContext(ctx, "INSERT INTO words (word) VALUES ('"+text+"')")
	require.NoError(t, err)
	var got string
	require.NoError(t, reader.QueryRowContext(ctx, "SELECT word FROM words").Scan(&got))
	assert.Equal(t, text, got)
}

// keepsOut: a server is to be reached by nobody without its password, and on no
// address but 127.0.0.1.
func keepsOut(t *testing.T, server *Server, k kind) {
	t.Helper()
	bare, address := withoutPassword(t, server)
	assert.Error(t, k.ping(t.Context(), bare), "it answers without a password")

	host, port, err := net.SplitHostPort(address)
	require.NoError(t, err)
	assert.Equal(t, "127.0.0.1", host)
	// Linux has all of 127.0.0.0/8: a server that listens on every address
	// answers on this one too.
	if runtime.GOOS == "linux" {
		connection, err := new(net.Dialer).DialContext(t.Context(), "tcp", net.JoinHostPort("127.0.0.2", port))
		if !assert.Error(t, err, "it listens on other addresses") {
			connection.Close()
		}
	}
}

// withoutPassword returns a server's DSN less the password, and its address.
func withoutPassword(t *testing.T, server *Server) (dsn, address string) {
	t.Helper()
	if server.Driver == "mysql" {
		config, err := mysql.ParseDSN(server.DSN)
		require.NoError(t, err)
		config.Passwd = ""
		return config.FormatDSN(), config.Addr
	}
	parsed, err := url.Parse(server.DSN)
	require.NoError(t, err)
	parsed.User = url.User(parsed.User.Username())
	return parsed.String(), parsed.Host
}

// orphan has this test's binary start a server and wait to be killed.
const orphan = "SKILLBAY_TEST_ORPHAN"

// TestKilled: a test process that is killed leaves nothing of its servers.
func TestKilled(t *testing.T) {
	if name := os.Getenv(orphan); name != "" {
		beOrphaned(t, name)
	}
	for _, test := range all {
		t.Run(test.kind.name, func(t *testing.T) {
			if _, err := test.kind.find(); errors.Is(err, ErrAbsent) || !hasGroups {
				t.Skip(err)
			}
			child := exec.Command(os.Args[0], "-test.run=^TestKilled$")
			child.Env = append(os.Environ(), orphan+"="+test.kind.name, test.kind.variable+"=")
			stdout, err := child.StdoutPipe()
			require.NoError(t, err)
			stderr, err := child.StderrPipe() // the keeper's too
			require.NoError(t, err)
			require.NoError(t, child.Start())
			var dir, dsn string
			_, scanErr := fmt.Fscanf(stdout, "at %s %s\n", &dir, &dsn)
			alive := test.kind.ping(t.Context(), dsn)
			require.NoError(t, child.Process.Kill())
			words, err := io.ReadAll(stderr) // ends when the keeper has
			require.NoError(t, err)
			_ = child.Wait() // killed
			require.NoError(t, scanErr, "%s", words)
			require.NoError(t, alive, "the server did not run")

			assert.Empty(t, string(words), "the keeper complains")
			assert.NoDirExists(t, dir)
			assert.Empty(t, processesIn(t, dir), "processes are left")
			assert.Error(t, test.kind.ping(t.Context(), dsn), "the server is left")
		})
	}
}

// beOrphaned starts a server, tells where it is and waits.
func beOrphaned(t *testing.T, name string) {
	for _, test := range all {
		if test.kind.name == name {
			server, err := test.start(t.Context())
			require.NoError(t, err)
			fmt.Println("at", server.keeper.dir, server.DSN)
			select {}
		}
	}
	t.Fatalf("no server %q", name)
}

// TestAbsent: a server without programs is absent, which Start takes for a
// reason to skip, and nothing is made for it.
func TestAbsent(t *testing.T) {
	temporary := ownTemporary(t)
	absent := kind{name: "Nothing", variable: "SKILLBAY_NOTHING", programs: []string{"skillbay-no-such-server"}}
	_, err := absent.start(t.Context())
	require.ErrorIs(t, err, ErrAbsent)
	assert.ErrorContains(t, err, "skillbay-no-such-server")
	assert.Empty(t, entries(t, temporary))

	skipping := &skipRecorder{TB: t}
	done := make(chan struct{})
	go func() {
		defer close(done)
		Start(skipping, absent.start)
	}()
	<-done
	assert.Contains(t, skipping.reason, "skillbay-no-such-server")
}

// skipRecorder notes why a test would be skipped.
type skipRecorder struct {
	testing.TB
	reason string
}

func (r *skipRecorder) Skip(args ...any) {
	r.reason = fmt.Sprint(args...)
	runtime.Goexit()
}

// TestFails: a server that ends, and one that never answers, are errors that
// tell why, and nothing of them is left.
func TestFails(t *testing.T) {
	if !hasGroups {
		t.Skip("needs a Unix")
	}
	deaf := errors.New("no answer")
	shell := func(script string) kind {
		return kind{
			name: "Shell", variable: "SKILLBAY_SHELL", programs: []string{"sh"}, signal: "KILL",
			prepare:   func(context.Context, *site) error { return nil },
			arguments: func(*site) ([]string, error) { return []string{"-c", script}, nil },
			dsn:       func(*site) string { return "" },
			ping:      func(context.Context, string) error { return deaf },
		}
	}

	t.Run("ends", func(t *testing.T) {
		temporary := ownTemporary(t)
		_, err := shell("echo its last words; exit 3").start(t.Context())
		require.ErrorContains(t, err, "its last words")
		assert.ErrorContains(t, err, "exit status 3")
		assert.Empty(t, entries(t, temporary))
	})

	t.Run("never answers", func(t *testing.T) {
		temporary := ownTemporary(t)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		k := shell("sleep 1000 & : >forked; wait") // a child has to be found, too
		k.dsn = func(s *site) string { return filepath.Join(s.dir, "forked") }
		k.ping = func(_ context.Context, forked string) error {
			if _, err := os.Stat(forked); err == nil {
				cancel()
			}
			return deaf
		}
		_, err := k.start(ctx)
		require.ErrorIs(t, err, context.Canceled)
		assert.ErrorIs(t, err, deaf)
		assert.Empty(t, entries(t, temporary))
		assert.Empty(t, processesIn(t, temporary))
	})

	t.Run("cannot prepare", func(t *testing.T) {
		temporary := ownTemporary(t)
		k := shell("")
		k.prepare = func(ctx context.Context, s *site) error {
			return s.run(ctx, s.programs[0], "-c", "echo no room >&2; exit 1")
		}
		_, err := k.start(t.Context())
		require.ErrorContains(t, err, "no room")
		assert.Empty(t, entries(t, temporary))
	})

	t.Run("cancelled while it prepares", func(t *testing.T) {
		temporary := ownTemporary(t)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		k := shell("")
		k.prepare = func(ctx context.Context, s *site) error {
			cancel()
			return s.run(ctx, s.programs[0], "-c", "sleep 1000 & wait")
		}
		_, err := k.start(ctx)
		require.ErrorIs(t, err, context.Canceled)
		assert.Empty(t, entries(t, temporary))
		assert.Empty(t, processesIn(t, temporary))
	})

	t.Run("comes up at the second attempt", func(t *testing.T) {
		ownTemporary(t)
		k := shell("")
		attempts := 0
		k.arguments = func(*site) ([]string, error) {
			if attempts++; attempts == 1 {
				return []string{"-c", "exit 1"}, nil // as if its port were taken
			}
			return []string{"-c", "exec sleep 1000"}, nil
		}
		k.ping = func(context.Context, string) error {
			if attempts == 1 {
				return deaf
			}
			return nil
		}
		server, err := k.start(t.Context())
		require.NoError(t, err)
		assert.Equal(t, 2, attempts)
		require.NoError(t, server.Close())
		assert.NoDirExists(t, server.keeper.dir)
	})
}

// ownTemporary gives the test a directory for temporary files, which servers can
// enter that do not run as root.
func ownTemporary(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "skillbay-test-")
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, os.RemoveAll(dir)) })
	require.NoError(t, os.Chmod(dir, 0o755))
	t.Setenv("TMPDIR", dir)
	return dir
}

// entries returns the names in a directory.
func entries(t *testing.T, dir string) []string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(dir, "*"))
	require.NoError(t, err)
	return found
}

// processesIn returns the processes whose working directory is or was in a
// directory, where Linux tells: each server works in its own.
func processesIn(t *testing.T, dir string) []string {
	t.Helper()
	links, err := filepath.Glob("/proc/[0-9]*/cwd")
	require.NoError(t, err)
	var found []string
	for _, link := range links {
		if target, err := os.Readlink(link); err == nil && strings.HasPrefix(target, dir) {
			found = append(found, link)
		}
	}
	return found
}
