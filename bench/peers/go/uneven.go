// SPDX-License-Identifier: MIT

// Short requests beside long ones, a goroutine for each connection. To compute for some
// time is done as in bench/uneven.c.
package main

import (
	"fmt"
	"math"
	"runtime"
	"sort"
	"sync"
	"time"
)

// short and long are the us of requests, of which longs percent are long.
const (
	short, long = 20, 2000
	longs       = 5
	seed        = uint64(88172645463325252)
)

var eachUs = 100.0 // numbers of the chain

// nextOf is Marsaglia's xorshift.
func nextOf(x uint64) uint64 {
	x ^= x << 13
	x ^= x >> 7
	return x ^ x<<17
}

// compute takes so many us, if calibrate was called before.
//
//go:noinline
func compute(us float64) uint64 {
	x := seed
	for n := uint64(us * eachUs); n > 0; n-- {
		x = nextOf(x)
	}
	return x
}

// calibrate measures how many numbers take a us.
func calibrate() {
	for start := time.Now(); time.Since(start) < 400*time.Millisecond; {
		compute(1000)
	}
	best := 0.0
	for i := 0; i < 10; i++ {
		start := time.Now()
		compute(20000)
		best = math.Max(best, 20000*eachUs*1000/float64(time.Since(start).Nanoseconds()))
	}
	eachUs = best
}

// serve returns the delays of the short requests of a connection, in us.
func serve(n int, begin time.Time, seconds, gap float64) (late []float64) {
	x := seed ^ uint64(n)*2654435761
	for i := 0; i < 10; i++ {
		x = nextOf(x)
	}
	for due := 0.0; ; {
		x = nextOf(x)
		due -= math.Log((float64(x>>11)+1)/9007199254740992) * gap
		if due >= seconds*1e9 {
			return
		}
		at := begin.Add(time.Duration(due))
		if wait := time.Until(at); wait > 0 {
			time.Sleep(wait)
		}
		x = nextOf(x)
		if x%100 < longs {
			compute(long)
			continue
		}
		compute(short)
		if due >= seconds*2e8 {
			late = append(late, float64(time.Since(at).Nanoseconds())/1000)
		}
	}
}

func uneven() {
	args := numbers("PERMILLE LOAD CONNECTIONS SECONDS PROCESSORS", 1, 1, 1, 1, 1)
	permille, load, connections, seconds := args[0], args[1], args[2], float64(args[3])
	processors := args[4]
	if permille > 999 || load > 99 {
		fail("PERMILLE is at most 999, LOAD 99")
	}
	runtime.GOMAXPROCS(processors)
	mean := float64((100-longs)*short+longs*long) * 10 // ns
	gap := mean * 100 * float64(connections) / float64(load*processors)
	calibrate()
	begin := time.Now().Add(50 * time.Millisecond)
	lates := make([][]float64, connections)
	var group sync.WaitGroup
	group.Add(connections)
	for i := range lates {
		go func(i int) {
			defer group.Done()
			lates[i] = serve(i+1, begin, seconds, gap)
		}(i)
	}
	group.Wait()
	var all []float64
	for _, late := range lates {
		all = append(all, late...)
	}
	if len(all) == 0 {
		fail("no requests")
	}
	sort.Float64s(all)
	fmt.Printf("%.6f\n", all[len(all)*permille/1000])
}
