package main

import (
	"sync/atomic"
	"time"
)

// clock is the time of the story: it starts at a fixed instant and moves one
// minute a turn, so that every run of the story prints the same bytes. It
// serves skillbay (Config.Now) and the shop alike, from any goroutine.
type clock struct {
	start  time.Time
	minute atomic.Int64
}

// newStoryClock returns the story's clock, which stands at the start.
func newStoryClock() *clock {
	return &clock{start: time.Date(2026, time.March, 2, 9, 0, 0, 0, time.UTC)}
}

// set moves the clock to the given minute after the start.
func (c *clock) set(minute int) { c.minute.Store(int64(minute)) }

// now returns the instant at which the clock stands.
func (c *clock) now() time.Time {
	return c.start.Add(time.Duration(c.minute.Load()) * time.Minute)
}
