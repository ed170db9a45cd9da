// SPDX-License-Identifier: MIT

//go:build go1.23

// go-create: coroutines of iter.Pull, one after the other. Each gives its number and is
// stopped. This ends its goroutine, and the runtime reuses it.
package main

import (
	"fmt"
	"iter"
	"runtime"
	"time"

	"peers/internal/peer"
)

func main() {
	threads := peer.Args("THREADS", 1)[0]
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
	took := time.Since(began)

	peer.PrintSeconds(took)
	fmt.Println(sum)
}
