//go:build !race

package skillbay_test

// raceEnabled tells whether the race detector is on.
const raceEnabled = false
