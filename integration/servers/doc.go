// Package servers starts real database servers for tests: PostgreSQL, MariaDB
// and Redis, each in a temporary directory and on a free port of 127.0.0.1,
// never as the system's service.
//
// A server is the test's own. It takes connections with a random password, has
// little memory, and does not sync to its disk: it loses its data with the
// machine, but nothing in how transactions and locks behave changes.
//
// Nothing stays behind, also after a test process that was killed: a keeper, a
// shell of a few lines that waits for the process's end, stops the server and
// removes its directory. It needs a Unix; elsewhere every server is absent.
//
// SKILLBAY_POSTGRES, SKILLBAY_MYSQL and SKILLBAY_REDIS name a server that runs
// already, by its DSN; it is used and not stopped.
package servers
