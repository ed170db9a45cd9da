// SPDX-License-Identifier: MIT

//go:build go1.23

// go-pingpong: a coroutine of iter.Pull, the only direct switch from one goroutine to
// another, without the scheduler, of the Go runtime.
package main

import (
	"fmt"
	"iter"
	"time"

	"peers/internal/peer"
)

func count(yield func(int) bool) {
	for i := -1; yield(i); i++ {
	}
}

func main() {
	pairs := peer.Args("PAIRS", 1)[0]
	next, stop := iter.Pull(count)
	defer stop()

	next() // to its first block, with -1
	sum := 0
	began := time.Now()
	for i := 0; i < pairs; i++ {
		value, _ := next()
		sum += value
	}
	took := time.Since(began)

	peer.PrintSeconds(took)
	fmt.Println(sum)
}
