// SPDX-License-Identifier: MIT

// go-channel: values from one goroutine to another, over a channel, on two processors.
package main

import (
	"fmt"
	"os"
	"runtime"
	"strconv"
	"time"

	"peers/internal/peer"
)

// A capacity of 0 is none of the numbers that peer.Args takes.
func arguments() (capacity, values int) {
	names := "CAPACITY VALUES"
	if len(os.Args) == 3 && os.Args[1] == strconv.Itoa(0) {
		os.Args[1] = "1"
		return 0, peer.Args(names, 1, 1)[1]
	}
	args := peer.Args(names, 1, 1)
	return args[0], args[1]
}

func main() {
	capacity, values := arguments()
	runtime.GOMAXPROCS(2)
	numbers := make(chan uint64, capacity)
	start := time.Now()
	go func() {
		for i := 0; i < values; i++ {
			numbers <- uint64(i)
		}
		close(numbers)
	}()
	sum := uint64(0)
	for number := range numbers {
		sum += number
	}
	peer.PrintSeconds(time.Since(start))
	fmt.Println(sum)
}
