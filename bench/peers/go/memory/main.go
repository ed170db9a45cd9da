// SPDX-License-Identifier: MIT

// go-memory: goroutines that block on one channel, which has a message for each. So the
// memory is that of goroutines, not of channels.
package main

import (
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"

	"peers/internal/peer"
)

var (
	resume  = make(chan struct{})
	arrived sync.WaitGroup
	finish  sync.WaitGroup
	ended   int64
)

func wait() {
	arrived.Done()
	<-resume
	atomic.AddInt64(&ended, 1)
	finish.Done()
}

func main() {
	threads := peer.Args("THREADS", 1)[0]
	peer.NeedMemory(threads)
	// With one processor the last goroutine has blocked before main goes on.
	runtime.GOMAXPROCS(1)
	arrived.Add(threads)
	finish.Add(threads)
	runtime.GC()
	before := peer.Resident()
	for i := 0; i < threads; i++ {
		go wait()
	}
	arrived.Wait()
	runtime.GC()
	bytes := peer.Resident() - before
	for i := 0; i < threads; i++ {
		resume <- struct{}{}
	}
	finish.Wait()
	if ended != int64(threads) {
		peer.Fail("not all have ended")
	}
	if bytes < 0 {
		bytes = 0
	}
	fmt.Println(bytes / threads)
	fmt.Println(ended)
}
