// SPDX-License-Identifier: MIT

// Package peer has arguments, failures and memory, for the Go programs.
package peer

import (
	"fmt"
	"math/bits"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// Fail ends the program after an error, without a result.
func Fail(what string) {
	fmt.Fprintf(os.Stderr, "%s: %s\n", filepath.Base(os.Args[0]), what)
	os.Exit(1)
}

func usage(names string) {
	fmt.Fprintf(os.Stderr, "usage: %s %s\n", filepath.Base(os.Args[0]), names)
	os.Exit(2)
}

// Args returns the arguments: at least as many as least has, and at most one for each
// word of names. Each is a whole number, not below its least, or 1 where there is none.
func Args(names string, least ...int) []int {
	args := os.Args[1:]
	if len(args) < len(least) || len(args) > len(strings.Fields(names)) {
		usage(names)
	}
	values := make([]int, len(args))
	for i, arg := range args {
		value, err := strconv.ParseUint(arg, 10, strconv.IntSize-1)
		if err != nil || value < 1 || i < len(least) && int(value) < least[i] {
			usage(names)
		}
		values[i] = int(value)
	}
	return values
}

// Product multiplies two numbers of threads, and fails if the result is too large.
func Product(a, b int) int {
	hi, lo := bits.Mul64(uint64(a), uint64(b))
	if hi != 0 || int(lo) < 0 {
		Fail("not enough memory")
	}
	return int(lo)
}

// NeedMemory fails if there is no memory for so many goroutines: the runtime cannot be
// asked, and kills the process.
func NeedMemory(threads int) {
	const each = 2800 // stack 2048, descriptor 440, and the wait
	text, _ := os.ReadFile("/proc/meminfo")
	for _, line := range strings.Split(string(text), "\n") {
		f := strings.Fields(line)
		if len(f) < 2 || f[0] != "MemAvailable:" {
			continue
		}
		if kib, err := strconv.Atoi(f[1]); err == nil && threads > kib*1024/each {
			Fail(fmt.Sprintf("not enough memory for %d goroutines", threads))
		}
	}
}

// Resident returns the resident memory of this process, in bytes.
func Resident() int {
	text, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		Fail(err.Error())
	}
	f := strings.Fields(string(text))
	if len(f) < 2 {
		Fail("/proc/self/statm: no second number")
	}
	pages, err := strconv.Atoi(f[1])
	if err != nil {
		Fail(err.Error())
	}
	return pages * os.Getpagesize()
}

// PrintSeconds prints the first line of the output.
func PrintSeconds(t time.Duration) {
	fmt.Printf("%.6f\n", t.Seconds())
}
