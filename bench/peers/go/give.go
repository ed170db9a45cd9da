// SPDX-License-Identifier: MIT

//go:build go1.23

// Coroutines of iter.Pull, the only direct switch from one goroutine to another, without
// the scheduler, of the Go runtime.
package main

import (
	"fmt"
	"iter"
	"runtime"
	"time"
)

func init() {
	programs["go-pingpong"] = pingpong
	programs["go-create"] = create
}

func pingpong() {
	pairs := numbers("PAIRS", 1)[0]
	next, stop := iter.Pull(func(yield func(int) bool) {
		for i := -1; yield(i); i++ {
		}
	})
	defer stop()
	next() // to its first block, with -1
	sum := 0
	began := time.Now()
	for i := 0; i < pairs; i++ {
		value, _ := next()
		sum += value
	}
	printSeconds(time.Since(began))
	fmt.Println(sum)
}

// One after the other gives its number and is stopped. This ends its goroutine, and the
// runtime reuses it.
func create() {
	threads := numbers("THREADS", 1)[0]
	runtime.GOMAXPROCS(1) // more would only spread the collector's work
	sum := 0
	began := time.Now()
	for i := 0; i < threads; i++ {
		next, stop := iter.Pull(func(yield func(int) bool) {
			yield(i)
		})
		value, _ := next()
		sum += value
		stop()
	}
	printSeconds(time.Since(began))
	fmt.Println(sum)
}
