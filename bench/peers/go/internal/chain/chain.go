// SPDX-License-Identifier: MIT

// Package chain computes for some time, as bench/chain.h does.
package chain

import (
	"math"
	"time"
)

// Short and Long are the us of requests, of which Longs percent are long.
const (
	Short, Long = 20, 2000
	Longs       = 5
	Seed        = uint64(88172645463325252)
)

var eachUs = 100.0 // numbers of the chain

// Next is Marsaglia's xorshift.
func Next(x uint64) uint64 {
	x ^= x << 13
	x ^= x >> 7
	return x ^ x<<17
}

// Compute takes so many us, if Calibrate was called before.
//
//go:noinline
func Compute(us float64) uint64 {
	x := Seed
	for n := uint64(us * eachUs); n > 0; n-- {
		x = Next(x)
	}
	return x
}

// Calibrate measures how many numbers take a us.
func Calibrate() {
	for start := time.Now(); time.Since(start) < 400*time.Millisecond; {
		Compute(1000)
	}
	best := 0.0
	for i := 0; i < 10; i++ {
		start := time.Now()
		Compute(20000)
		best = math.Max(best, 20000*eachUs*1000/float64(time.Since(start).Nanoseconds()))
	}
	eachUs = best
}
