// SPDX-License-Identifier: MIT

package main

import (
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

const ringThreads = 503

func pass(number int, in <-chan int, next chan<- int, end chan<- int, blocked *sync.WaitGroup) {
	blocked.Done()
	for {
		token := <-in
		if token == 0 {
			end <- number
			return
		}
		next <- token - 1
	}
}

// ring has goroutines with a channel to the next. The receiver always waits before the
// sender sends, so a buffer in the channels would not be used.
func ring() {
	passes := numbers("PASSES", 1)[0]
	runtime.GOMAXPROCS(1) // no more than one is ready at a time
	var blocked sync.WaitGroup
	blocked.Add(ringThreads)
	first, end := make(chan int), make(chan int)
	in := first
	for number := 1; number < ringThreads; number++ {
		next := make(chan int)
		go pass(number, in, next, end, &blocked)
		in = next
	}
	go pass(ringThreads, in, first, end, &blocked)
	blocked.Wait()
	began := time.Now()
	first <- passes
	number := <-end
	printSeconds(time.Since(began))
	fmt.Println(number)
}

// memory has goroutines that block on one channel, which has a message for each. So the
// memory is that of goroutines, not of channels.
func memory() {
	threads := numbers("THREADS", 1)[0]
	needMemory(threads)
	// With one processor the last goroutine has blocked before this one goes on.
	runtime.GOMAXPROCS(1)
	resume := make(chan struct{})
	ended := int64(0)
	var blocked, finish sync.WaitGroup
	blocked.Add(threads)
	finish.Add(threads)
	wait := func() {
		blocked.Done()
		<-resume
		atomic.AddInt64(&ended, 1)
		finish.Done()
	}
	runtime.GC()
	before := resident()
	for i := 0; i < threads; i++ {
		go wait()
	}
	blocked.Wait()
	runtime.GC()
	bytes := resident() - before
	for i := 0; i < threads; i++ {
		resume <- struct{}{}
	}
	finish.Wait()
	if ended != int64(threads) {
		fail("not all have ended")
	}
	if bytes < 0 {
		bytes = 0
	}
	fmt.Println(bytes / threads)
	fmt.Println(ended)
}

// channel sends values from one goroutine to another, on two processors.
func channel() {
	args := numbers("CAPACITY VALUES", 0, 1)
	runtime.GOMAXPROCS(2)
	sent := make(chan uint64, args[0])
	start := time.Now()
	go func() {
		for i := 0; i < args[1]; i++ {
			sent <- uint64(i)
		}
		close(sent)
	}()
	sum := uint64(0)
	for number := range sent {
		sum += number
	}
	printSeconds(time.Since(start))
	fmt.Println(sum)
}
