// SPDX-License-Identifier: MIT

// Cycles of goroutines. Each receives from its own channel and sends to that of its right
// neighbour.
//
// A round starts before the last message of the previous one has come back, so up to N
// messages of a cycle are on their way. Channels have room for as many, so a send never
// blocks. Messages are empty, so the room costs nothing.
package main

import (
	"fmt"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

type message struct{}

const mostProcs = 1024

var (
	n, r, m  int
	start    = [...]chan message{make(chan message), make(chan message)} // closed to start all cycles
	arrived  sync.WaitGroup       // threads
	finished sync.WaitGroup       // cycles
	counting = os.Getenv("BLOCKS") == "1"
	blocks   int64          // if counting
	counted  sync.WaitGroup // threads, if counting
)

// relay is the i-th goroutine of a cycle. It runs a round before the clock starts.
func relay(i int, in <-chan message, right chan<- message) {
	run(i, 1, start[0], in, right)
	blocked := run(i, m, start[1], in, right)
	if i == (m-1)%n {
		finished.Done()
	}
	if counting {
		atomic.AddInt64(&blocks, int64(blocked))
		counted.Done()
	}
}

// run returns how often the goroutine has blocked, if counting.
func run(i, rounds int, start, in <-chan message, right chan<- message) int {
	blocked := 0
	arrived.Done()
	if i == 0 {
		<-start
		blocked = 1
	}
	turn := 0
	for left := rounds; left > 0; left-- {
		if turn == i {
			right <- message{}
		}
		if counting && len(in) == 0 {
			blocked++
		}
		<-in
		if turn != i {
			right <- message{}
		}
		if turn++; turn == n {
			turn = 0
		}
	}
	return blocked
}

func createCycles() {
	for c := 0; c < r; c++ {
		first := make(chan message, n)
		in := first
		for i := 0; i < n-1; i++ {
			right := make(chan message, n)
			go relay(i, in, right)
			in = right
		}
		go relay(n-1, in, first)
	}
}

func cycle() {
	args := numbers("N R M [P]", 2, 1, 1)
	n, r, m = args[0], args[1], args[2]
	procs := 1
	if len(args) > 3 {
		procs = args[3]
	}
	if procs > mostProcs {
		fail(fmt.Sprintf("not enough memory for %d processors", procs))
	}
	threads := product(n, r)
	needMemory(threads)
	runtime.GOMAXPROCS(procs)
	arrived.Add(threads)
	finished.Add(r)
	if counting {
		counted.Add(threads)
	}
	createCycles()
	arrived.Wait()
	arrived.Add(threads)
	close(start[0])
	arrived.Wait()
	runtime.GC() // keeps garbage of the creation out of the time

	began := time.Now()
	close(start[1])
	finished.Wait()
	took := time.Since(began)

	if counting {
		counted.Wait()
		fmt.Println(blocks)
		return
	}
	printSeconds(took)
}
