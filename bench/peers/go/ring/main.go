// SPDX-License-Identifier: MIT

// go-ring: goroutines in a ring, each with a channel to the next. The receiver always
// waits before the sender sends, so a buffer in the channels would not be used.
package main

import (
	"fmt"
	"runtime"
	"sync"
	"time"

	"peers/internal/peer"
)

const threads = 503

var arrived sync.WaitGroup

func pass(number int, in <-chan int, next chan<- int, end chan<- int) {
	arrived.Done()
	for {
		token := <-in
		if token == 0 {
			end <- number
			return
		}
		next <- token - 1
	}
}

func main() {
	passes := peer.Args("PASSES", 1)[0]
	runtime.GOMAXPROCS(1) // no more than one is ready at a time
	first, end := make(chan int), make(chan int)
	arrived.Add(threads)
	in := first
	for number := 1; number < threads; number++ {
		next := make(chan int)
		go pass(number, in, next, end)
		in = next
	}
	go pass(threads, in, first, end)
	arrived.Wait()

	began := time.Now()
	first <- passes
	number := <-end
	took := time.Since(began)

	peer.PrintSeconds(took)
	fmt.Println(number)
}
