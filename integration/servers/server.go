package servers

import (
	"context"
	"errors"
	"fmt"
	"os"
	"testing"
	"time"
)

// ErrAbsent is returned for a server whose programs are not on this machine.
var ErrAbsent = errors.New("the server is not installed")

// startLimit bounds one start: a cold machine takes seconds.
const startLimit = time.Minute

// Server is a database that takes connections. Its fields are to be read only,
// and by any number of goroutines.
type Server struct {
	// Driver is the name under which database/sql knows the driver that DSN is
	// for, which this package imports. It is empty for Redis, whose DSN is a URL
	// for redis.ParseURL.
	Driver string
	// DSN has the address, the password and a database that exists. Its user may
	// create others.
	DSN string

	keeper *keeper // nil for a server that someone else runs
}

// Close stops the server and removes its directory. It returns when both are
// gone, with an error if they are not. It may be called more than once, and
// does nothing to a server that an environment variable named.
func (s *Server) Close() error {
	if s.keeper == nil {
		return nil
	}
	return s.keeper.release()
}

// Start is for tests: it starts a server, as in Start(t, servers.PostgreSQL),
// and closes it when the test ends. It skips the test if the server is absent,
// and fails it if the server does not start.
func Start(t testing.TB, start func(context.Context) (*Server, error)) *Server {
	t.Helper()
	server, err := start(t.Context())
	if errors.Is(err, ErrAbsent) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := server.Close(); err != nil {
			t.Error(err)
		}
	})
	return server
}

// kind is what makes one server differ from another.
type kind struct {
	name     string   // for messages
	driver   string   // as in Server
	variable string   // the environment variable with the DSN of a running server
	programs []string // found before anything is made; the last one is the server
	folders  []string // patterns of directories to look in after PATH
	signal   string   // what stops the server at once, as the shell names it

	// prepare fills the directory, once.
	prepare func(context.Context, *site) error
	// arguments are what the server is started with; they may differ with the port.
	arguments func(*site) ([]string, error)
	// dsn is the address of the server once it runs.
	dsn func(*site) string
	// ping connects and asks for something.
	ping func(ctx context.Context, dsn string) error
}

// site is where one server lives: what its kind's functions are told.
type site struct {
	*keeper
	programs []string // the paths of the kind's programs
	password string
	port     int
}

// start returns the server that the environment names, or starts one. ctx
// bounds the start; the server outlives it.
func (k kind) start(ctx context.Context) (*Server, error) {
	ctx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	if dsn := os.Getenv(k.variable); dsn != "" {
		if err := k.ping(ctx, dsn); err != nil {
			return nil, fmt.Errorf("%s, which %s names, does not answer: %w", k.name, k.variable, err)
		}
		return &Server{Driver: k.driver, DSN: dsn}, nil
	}
	programs, err := k.find()
	if err != nil {
		return nil, err
	}
	keeper, err := keep(k.signal)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", k.name, err)
	}
	dsn, err := k.launch(ctx, &site{keeper: keeper, programs: programs, password: newPassword()})
	if err != nil {
		return nil, errors.Join(fmt.Errorf("%s does not start: %w", k.name, err), keeper.release())
	}
	return &Server{Driver: k.driver, DSN: dsn, keeper: keeper}, nil
}

// portAttempts is how often a server is started before its end counts as a
// failure: another process may take the port between its choice and its use.
const portAttempts = 3

// launch prepares the site and starts the server there. It returns the DSN of
// one that answers.
func (k kind) launch(ctx context.Context, s *site) (dsn string, err error) {
	if err := k.prepare(ctx, s); err != nil {
		return "", err
	}
	for range portAttempts {
		if s.port, err = freePort(ctx); err != nil {
			return "", err
		}
		dsn = k.dsn(s)
		if err = k.attempt(ctx, s, dsn); err == nil || ctx.Err() != nil {
			return dsn, err
		}
	}
	return "", err
}

// pollInterval is how long a server that does not answer yet is left alone.
const pollInterval = 20 * time.Millisecond

// attempt starts the server and waits until it answers, ends, or ctx does.
func (k kind) attempt(ctx context.Context, s *site, dsn string) error {
	arguments, err := k.arguments(s)
	if err != nil {
		return err
	}
	run, err := s.serve(s.programs[len(s.programs)-1], arguments...)
	if err != nil {
		return err
	}
	ticker := time.NewTicker(pollInterval)
	defer ticker.Stop()
	for {
		answer := k.ping(ctx, dsn)
		if answer == nil {
			return nil
		}
		select {
		case <-run.ended:
			return run.failure()
		case <-ctx.Done():
			return errors.Join(ctx.Err(), answer)
		case <-ticker.C:
		}
	}
}
