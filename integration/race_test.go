//go:build race

package integration_test

// raceEnabled tells whether the race detector is on.
const raceEnabled = true
